"""What a text's meaning takes from outside the text: the day it is said on, and who says it."""

import re

from memlane.domain.canonical.words import ENGLISH_STRONG, ENGLISH_WEAK, FOREIGN_MARKERS, WEEKDAYS, word_set

_WORD = re.compile(r"[^\W\d_]+")


_DAY_WORDS = word_set(
    """
    today tonight tomorrow yesterday now nowadays currently presently recently lately soon ago next last
    past upcoming coming previous previously already yet still just moment tomorrow's today's
    yesterday's later earlier tonite tmrw asap heute gestern morgen vorgestern übermorgen jetzt derzeit
    momentan aktuell gerade nächste nächsten nächster nächstes letzte letzten letzter letztes kürzlich
    neulich bald vor diese diesen dieses dieser hoy ayer mañana ahora anoche actualmente próximo próxima
    pasado pasada pronto hace anteayer esta este hier aujourd demain maintenant actuellement prochain
    prochaine dernier dernière bientôt récemment avant cette oggi ieri domani adesso ora stasera
    attualmente prossimo prossima scorso scorsa presto fa questa questo hoje ontem amanhã agora
    atualmente próxima passada passado breve atrás nesta neste vandaag gisteren nu volgende vorige
    binnenkort geleden deze idag igår imorgon nästa förra snart dag går morgon i-dag i-går forrige neste
    næste sidste snart tänään eilen huomenna nyt ensi viime dzisiaj dziś wczoraj jutro teraz obecnie
    następny następnym zeszły zeszłym ostatnio niedawno wkrótce dnes včera zítra zajtra teď teraz příští
    minulý nedávno сегодня вчера завтра сейчас теперь послезавтра позавчера скоро недавно назад
    следующий следующая следующей следующем прошлый прошлая прошлой прошлом этой этом пока сьогодні
    вчора завтра зараз тепер наступного минулого щойно днес утре сега bugün dün yarın şimdi şu gelecek
    geçen önce yakında σήμερα χθες χτες αύριο τώρα σύντομα πρόσφατα azi mâine acum curând recent tegnap
    holnap kemarin besok sekarang nanti tadi
    """
)
# Scripts without spaces, or with prefixes and marks inside words, are searched as plain text.
_DAY_STRINGS = re.compile(
    "今日|昨日|明日|今朝|今夜|今晚|今晩|今週|来週|先週|今月|来月|先月|今年|来年|去年|一昨日|明後日|現在|最近|只今|さっき|もうすぐ|きょう|きのう|あした"
    "|今天|昨天|明天|前天|后天|後天|现在|現在|目前|刚才|剛才|这周|這週|上周|上週|下周|下週|本周|本週|本月|上个月|上個月|下个月|下個月|明年|近期|刚刚"
    "|오늘|어제|내일|모레|지금|현재|최근|다음|지난|이번|올해|작년|내년|방금"
    "|วันนี้|เมื่อวาน|พรุ่งนี้|ตอนนี้|ขณะนี้|สัปดาห์|เดือนหน้า|เดือนที่แล้ว|ปีหน้า|ปีที่แล้ว|เมื่อคืน"
    "|اليوم|أمس|امس|البارحة|غدا|الآن|حاليا|القادم|الماضي|امروز|دیروز|فردا|اکنون|الان|آج|کل"
    "|היום|אתמול|מחר|עכשיו|כרגע|הבא|שעבר"
    "|आज|कल|परसों|अभी|अगले|अगली|पिछले|पिछली|আজ|কাল|এখন|இன்று|நேற்று|நாளை|இப்போது"
    "|hari ini|hôm nay|hôm qua|ngày mai|bây giờ"
)
_TIME_UNITS = (
    "second|minute|hour|day|night|week|weekend|month|quarter|year|decade|sprint|semester|term|season"
    "|morning|afternoon|evening|spring|summer|autumn|fall|winter|time|" + "|".join(sorted(WEEKDAYS))
)
_DAY_PHRASES = re.compile(
    rf"\b(?:this (?:{_TIME_UNITS})s?"
    rf"|these (?:days|weeks|months)|at present|so far"
    rf"|in (?:about |around )?(?:an?|[a-z]+|\d+)(?:-[a-z]+)? (?:second|minute|hour|day|week|month|year)s?"
    rf"|(?<!every )(?<!each )(?:{'|'.join(sorted(WEEKDAYS))}))\b"
)

_PERSON_WORDS = word_set(
    """
    i me my mine myself we us our ours ourselves you your yours yourself u im ive id ill user users he
    him his himself she her hers herself they them their theirs themselves here ich mich mir mein meine
    meinen meinem meiner wir uns unser unsere yo mi mis me nos nuestro nuestra je j moi mon ma mes nous
    notre nos io mio mia miei mie noi nostro eu meu minha meus nós nosso ik mij mijn wij ons onze jag
    mig min mitt mina vi jeg meg mitt moj mój moja mnie ja
    """
)
# What opens a text that leaves its subject out: "Likes tea", "Allergic to nuts", "Moved to Lyon".
_SUBJECTLESS_START = word_set(
    """
    is has was had does did can cannot will would should must may might could am been not never always
    usually often rarely sometimes currently recently really also still only allergic vegetarian vegan
    lactose gluten afraid married single divorced born based fluent interested new good bad great fond
    left right tired happy retired intolerant diabetic pregnant employed engaged able unable went bought
    got met took made saw began grew came gave kept lost won felt found wrote read spoke drove flew ate
    drank slept taught built sold sent spent paid said told thought knew quit favorite favourite
    full-time part-time name age birthday email phone address prefers speaks lives goes says keeps gets
    takes makes gives comes thinks knows sees feels finds tries does has
    """
)
_OPENING_S = word_set(
    """
    this its previous various across series kubernetes postgres redis analysis status access business
    process css aws gcs sales news always perhaps less pass class address
    """
)
_FINITE = word_set(
    """
    are is were was must may can will should have has do does had run runs happen happens use uses need
    needs go goes start starts end ends stay stays belong belongs live lives require requires own owns
    lead leads depend depends
    """
)
_DETERMINERS = word_set("the all every each some most no both use")


def words_of(text: str) -> list[str]:
    """Split a text into its runs of letters, in lower case ("I'm" gives `i` and `m`).

    Args:
        text: Any text.

    Returns:
        The runs in order, of any script.
    """
    return _WORD.findall(text.lower())


def looks_english(text: str) -> bool:
    """Tell whether a text is recognisably English, by its function words.

    Args:
        text: Any text; "Vivo en Madrid" and "Ik werk hier" are not English, nor is a text without any
            English function word.

    Returns:
        True only when every letter is Latin, and English function words outweigh those of other languages.
    """
    # U+024F is the end of the Latin blocks that names in an English text may use.
    if not text.isascii() and any(char > "\u024f" and char.isalpha() for char in text):
        return False
    words = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", text.lower())
    strong = sum(map(ENGLISH_STRONG.__contains__, words))
    weak = sum(map(ENGLISH_WEAK.__contains__, words))
    foreign = sum(map(FOREIGN_MARKERS.__contains__, words))
    if not strong and weak < 2:  # noqa: PLR2004 - one short word alone may be of another language
        return False
    return 2 * strong + weak > 2 * foreign


def depends_on_day(text: str) -> bool:
    """Tell whether a text means another thing on another day.

    The lists are wide on purpose: a word too many costs a row when the same text comes on another day, a word
    too few lets "the flight is tomorrow" of today pass for the one of last month.

    Args:
        text: A folded text.

    Returns:
        True when it has a word of time that counts from the present, in English or a language of the lists,
        or a weekday that is not "every" one.
    """
    lowered = " ".join(text.lower().split()).replace("next.js", "")
    return (
        not _DAY_WORDS.isdisjoint(_WORD.findall(lowered))
        or _DAY_PHRASES.search(lowered) is not None
        or _DAY_STRINGS.search(lowered) is not None
    )


def depends_on_speaker(text: str) -> bool:
    """Tell whether a text of a shared scope may be about its writer.

    Many languages say "I" by an ending or not at all ("Vivo en Madrid", "猫が好き"), and notes leave it out
    ("Likes tea"). So the test is the other way round: a text is impersonal only when it is recognisably
    English, has no personal word, and opens with a subject. All else belongs to its writer: two users who
    save the same shared fact in another language make two rows, and no user's fact is lost in another's.

    Args:
        text: A folded text.

    Returns:
        False only for text that is proven impersonal.
    """
    words = words_of(text)
    if not words or not _PERSON_WORDS.isdisjoint(words) or not looks_english(text):
        return True
    first = words[0]
    if first in _SUBJECTLESS_START or first.endswith(("ing", "ed")):
        return True
    if first.endswith("s") and first not in _OPENING_S:
        # "Deploys are frozen" has its verb after a plural; "Works in the office" is a verb itself.
        return words[1:2] == [] or words[1] not in _FINITE
    # Without a determiner in front ("The team deploys") a verb must show, for "Fan of the Beatles" has none.
    return first not in _DETERMINERS and _FINITE.isdisjoint(words[1:])
