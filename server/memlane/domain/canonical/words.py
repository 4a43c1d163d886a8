"""The word lists of the canonical form. Each entry is one on which the rules may rely without the context."""


def word_set(text: str) -> frozenset[str]:
    """Make a set of the words of a text that is wrapped for the reader.

    Args:
        text: Words with white space between them.

    Returns:
        The words.
    """
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    return dict(line.split(":") for line in text.split())


CASE_SENSITIVE_ACRONYMS = word_set("it us who aids pet cat lit ms md pa ma")
"""Written in capitals these are other words: the IT department, the US, the WHO."""

CASE_SENSITIVE_NOUNS = word_set(
    """
    polish turkey china chile jordan nice reading bath job frank rose grace hope faith joy dawn ivy lily
    violet olive pearl ruby amber iris daisy hazel holly ginger mark bill art hunter baker cook mason jack
    rob sue pat drew rich earnest christian angel miles dale heath cliff rusty sandy robin penny grant
    chip buddy gene ray go rust swift apple visa
    """
)
"""Names that are also plain words and can stand in the same place: her boss is Frank, her boss is frank."""

CASE_SENSITIVE_UNITS = word_set("kb mb gb tb pb eb kbps mbps gbps tbps kib mib gib tib mw mwh mhz mpa ps")
"""Units where case is a factor of eight or of a billion (Mb and MB, mW and MW): kept wherever they stand."""

UNIT_SYMBOLS = CASE_SENSITIVE_UNITS | word_set(
    """
    k m g t p b l w v a h s c f n d j q x y z r mm cm dm km nm um pm mg kg ml cl dl kl ms ns us hz khz ghz
    thz kw gw kwh gwh wh ma kv mv pa kpa hpa gpa mol mmol ev kev mev gev cal kcal db ma
    """
) - {"pm"}
"""Short units, whose case is kept after a number: 5 M is millions and 5 m is metres."""

_UNDER_TWENTY = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: number for number, word in enumerate(_UNDER_TWENTY.split())}
"""English number words up to ninety-nine; those of two words count only with their hyphen."""
NUMBER_WORDS |= {word: 10 * number for number, word in enumerate(_TENS.split(), start=2)}
NUMBER_WORDS |= {
    f"{ten}-{unit}": NUMBER_WORDS[ten] + NUMBER_WORDS[unit]
    for ten in _TENS.split()
    for unit in _UNDER_TWENTY.split()[1:10]
}

CONTRACTIONS = _pairs(
    """
    don't:do,not doesn't:does,not didn't:did,not isn't:is,not aren't:are,not wasn't:was,not
    weren't:were,not can't:can,not cannot:can,not couldn't:could,not won't:will,not wouldn't:would,not
    shouldn't:should,not mustn't:must,not needn't:need,not haven't:have,not hasn't:has,not hadn't:had,not
    dont:do,not doesnt:does,not didnt:did,not isnt:is,not wasnt:was,not hasnt:has,not havent:have,not
    i'm:i,am i've:i,have i'll:i,will you're:you,are you've:you,have you'll:you,will we're:we,are
    we've:we,have we'll:we,will they're:they,are they've:they,have they'll:they,will
    """
)
"""Only those with one reading: 's (is, has, of) and 'd (had, would) stay as they are."""

SPELLINGS = _pairs(
    """
    favourite:favorite favourites:favorites favour:favor favours:favors colour:color colours:colors
    coloured:colored behaviour:behavior behaviours:behaviors neighbour:neighbor neighbours:neighbors
    neighbourhood:neighborhood flavour:flavor flavours:flavors honour:honor humour:humor rumour:rumor
    organise:organize organises:organizes organised:organized organising:organizing
    organisation:organization organisations:organizations realise:realize realises:realizes
    realised:realized recognise:recognize recognises:recognizes recognised:recognized apologise:apologize
    apologises:apologizes customise:customize customises:customizes customised:customized
    optimise:optimize optimises:optimizes optimised:optimized optimisation:optimization
    summarise:summarize summarises:summarizes summarised:summarized prioritise:prioritize
    prioritises:prioritizes prioritised:prioritized specialise:specialize specialises:specializes
    specialised:specialized analyse:analyze analyses:analyzes analysed:analyzed authorise:authorize
    authorises:authorizes authorised:authorized authorisation:authorization synchronise:synchronize
    synchronises:synchronizes synchronised:synchronized containerised:containerized serialised:serialized
    serialisation:serialization travelling:traveling travelled:traveled cancelled:canceled
    cancelling:canceling labelled:labeled modelling:modeling jewellery:jewelry centre:center
    centres:centers theatre:theater theatres:theaters litre:liter litres:liters kilometre:kilometer
    kilometres:kilometers licence:license catalogue:catalog defence:defense offence:offense
    aluminium:aluminum pyjamas:pajamas doughnut:donut doughnuts:donuts recieve:receive recieves:receives
    recieved:received seperate:separate seperately:separately definately:definitely occured:occurred
    adress:address adresses:addresses accomodate:accommodate accomodation:accommodation
    enviroment:environment goverment:government untill:until begining:beginning beleive:believe
    beleives:believes freind:friend freinds:friends neccessary:necessary tommorow:tomorrow
    tommorrow:tomorrow vegeterian:vegetarian vegitarian:vegetarian restaraunt:restaurant
    resturant:restaurant langauge:language langauges:languages prefered:preferred refered:referred
    alergic:allergic allergc:allergic allergy's:allergies thier:their teh:the wierd:weird acheive:achieve
    publically:publicly recomend:recommend recomends:recommends reccomend:recommend comittee:committee
    maintainance:maintenance occassion:occasion occassionally:occasionally succesful:successful
    successfull:successful tendancy:tendency writting:writing wensday:wednesday wendesday:wednesday
    febuary:february calender:calendar calenders:calendars becuase:because alot:a,lot buisness:business
    collegue:colleague collegues:colleagues embarassed:embarrassed familar:familiar finaly:finally foriegn:foreign
    grammer:grammar immediatly:immediately independant:independent intresting:interesting intrested:interested
    knowlege:knowledge libary:library necessery:necessary noticable:noticeable occurence:occurrence
    oppurtunity:opportunity persistant:persistent posession:possession privelege:privilege
    proffesional:professional pronounciation:pronunciation realy:really relevent:relevant remeber:remember
    schedual:schedule similiar:similar speach:speech suprise:surprise temperture:temperature truely:truly
    unfortunatly:unfortunately usefull:useful vegtables:vegetables vegtable:vegetable expresso:espresso
    prefere:prefer preferes:prefers preffers:prefers preferrs:prefers prefrence:preference
    preferance:preference preferances:preferences allergys:allergies alergies:allergies alergy:allergy
    managment:management developement:development deployement:deployment environement:environment
    dependancy:dependency dependancies:dependencies sofware:software databse:database docuemnt:document
    documention:documentation configuraton:configuration reponse:response responce:response
    recipies:recipes excercise:exercise excercises:exercises exersise:exercise
    univeristy:university colledge:college hospitol:hospital appartment:apartment appartement:apartment
    telephon:telephone brekfast:breakfast breakfeast:breakfast saterday:saturday
    thrusday:thursday tuseday:tuesday wednsday:wednesday munday:monday firday:friday janurary:january
    januray:january agust:august septmber:september ocotber:october novmber:november decemeber:december
    meeeting:meeting meetting:meeting meetng:meeting weekely:weekly dayly:daily montly:monthly
    yoghurt:yogurt cosy:cozy plough:plow sceptical:skeptical
    fulfil:fulfill enrol:enroll instalment:installment instalments:installments
    colouring:coloring flavoured:flavored favoured:favored honoured:honored neighbouring:neighboring
    memorise:memorize memorises:memorizes memorised:memorized utilise:utilize utilises:utilizes
    minimise:minimize minimises:minimizes minimised:minimized maximise:maximize maximises:maximizes
    visualise:visualize visualises:visualizes visualised:visualized standardise:standardize
    standardised:standardized normalise:normalize normalises:normalizes normalised:normalized
    initialise:initialize initialises:initializes initialised:initialized finalise:finalize
    finalises:finalizes finalised:finalized emphasise:emphasize emphasises:emphasizes
    socialise:socialize socialises:socializes capitalise:capitalize capitalised:capitalized
    organiser:organizer organisers:organizers analysed:analyzed analysing:analyzing
    optimising:optimizing realising:realizing categorise:categorize categorised:categorized
    """
)
"""One word in two spellings (British and American), and misspellings that are no word of their own.

Left out where a name or another word is near: grey and gray, labour, harbour, metre, programme, cheque.
"""
del SPELLINGS["analyses"]  # also the plural of analysis

ABBREVIATIONS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("k8s",): ("kubernetes",),
    ("K8s",): ("kubernetes",),
    ("K8S",): ("kubernetes",),
    ("i18n",): ("internationalization",),
    ("a11y",): ("accessibility",),
    ("postgresql",): ("postgres",),
    ("repo",): ("repository",),
    ("repos",): ("repositories",),
    ("jwt",): ("json", "web", "token"),
    ("jwts",): ("json", "web", "tokens"),
    ("vs", "code"): ("visual", "studio", "code"),
}
"""Short forms with one long form. CI, PR, DB, app and the like have several and are left out."""

UNIT_NAMES = _pairs(
    """
    kilometer:km kilometers:km kilometre:km kilometres:km kilogram:kg kilograms:kg kilo:kg kilos:kg kgs:kg
    kms:km milligram:mg milligrams:mg centimeter:cm centimeters:cm centimetre:cm centimetres:cm
    millimeter:mm millimeters:mm millimetre:mm millimetres:mm millisecond:ms milliseconds:ms kilobyte:KB
    kilobytes:KB megabyte:MB megabytes:MB gigabyte:GB gigabytes:GB terabyte:TB terabytes:TB hrs:hours
    hr:hour yrs:years yr:year mins:minutes
    """
)
"""Names of units and their symbols, used only after a number."""

ATTACHED_UNITS = word_set("km kg mg cm mm ms ml KB MB GB TB Mb Gb kWh MHz GHz")
"""Symbols that may be written against their number: 10MB is 10 MB."""

MEASURES = word_set(
    """
    % km kg mg cm mm ms ml KB MB GB TB second seconds minute minutes hour hours day days week weeks month
    months year years percent people users euros dollars
    """
)
"""After a number, these make it an amount, so that "around" before it means "about"."""

_MONTHS = "january february march april may june july august september october november december"
MONTHS = {name: number for number, name in enumerate(_MONTHS.split(), start=1)}
MONTH_NAMES = {number: name for name, number in MONTHS.items()}
MONTH_ABBREVIATIONS = {
    name[:3]: name for name in MONTHS if name not in {"march", "may"}
} | {"sept": "september"}  # fmt: skip
"""Read as months only beside a day. `mar` is left out: it is a word of its own."""

WEEKDAYS = word_set("monday tuesday wednesday thursday friday saturday sunday")
WEEKDAYS_PLURAL = frozenset(f"{day}s" for day in WEEKDAYS)

FILLERS: tuple[tuple[str, ...], ...] = (
    ("as", "mentioned", ","),
    ("as", "mentioned", "before", ","),
    ("as", "mentioned", "earlier", ","),
    ("just", "so", "you", "know", ","),
    ("so", "you", "know", ","),
    ("by", "the", "way", ","),
    ("btw", ","),
    ("fyi", ","),
    ("fyi:",),
    ("note:",),
    ("for", "the", "record", ","),
    ("for", "your", "information", ","),
    ("as", "a", "reminder", ","),
    ("please", "note", "that"),
    ("please", "note", ","),
    ("please", "note:"),
    ("note", "that"),
    ("note", ":"),
    ("remember", "that"),
    ("please", "remember", "that"),
    ("keep", "in", "mind", "that"),
    ("please", "keep", "in", "mind", "that"),
    ("as", "noted", ","),
    ("as", "noted", "earlier", ","),
    ("as", "i", "said", ","),
    ("as", "i", "mentioned", ","),
    ("like", "i", "said", ","),
    ("as", "discussed", ","),
    ("as", "you", "know", ","),
    ("as", "stated", ","),
    ("as", "a", "side", "note", ","),
    (
        "side",
        "note:",
    ),
    ("reminder:",),
    ("heads", "up:"),
    ("heads", "up", ","),
    ("heads-up:",),
    ("just", "a", "reminder", ","),
    ("just", "a", "note", ","),
    ("just", "to", "note", ","),
    ("to", "be", "clear", ","),
    ("for", "context", ","),
    ("for", "reference", ","),
    ("in", "fact", ","),
    ("of", "course", ","),
    ("actually", ","),
    ("basically", ","),
    ("well", ","),
    ("oh", ","),
    ("anyway", ","),
    ("incidentally", ","),
    ("also", ","),
    ("please",),
    ("it", "is", "worth", "noting", "that"),
)
"""Openings that say nothing about what follows. Hedges (I think, probably) are not among them."""

LAST_FILLERS: tuple[tuple[str, ...], ...] = (
    (",", "by", "the", "way"),
    (",", "btw"),
    (",", "fyi"),
    (",", "just", "so", "you", "know"),
    (",", "for", "the", "record"),
    (",", "as", "mentioned"),
    (",", "as", "mentioned", "before"),
    (",", "as", "mentioned", "earlier"),
    (",", "as", "you", "know"),
    (",", "please"),
    ("please",),
)
"""Endings that say nothing about what stands before."""

FUNCTION_WORDS = word_set(
    """
    a an the this that these those and or but nor not no never only just even also too either neither both
    i you he she it we they me him her us them my your his its our their mine who whom whose what which
    where when why how if unless because since until while although though as than so then to from by for
    with without in on at of off over under into onto about after before between during per via against is
    are was were be been being am do does did has have had can could will would shall should may might
    must all any each every some most many much more less few several one none nothing nobody everyone
    everything always usually often sometimes rarely there here yes
    """
)

FRONT_GUARDS = word_set(
    """
    and or but nor not never no only if when while because since until unless that which who whom whose
    where why how than then so as to also even just without except either neither both first last all
    every each some any most few nobody nothing none always usually often sometimes rarely say says said
    think thinks thought believe believes believed know knows knew tell tells told ask asks asked want
    wants wanted plan plans planned decide decides decided promise promises promised hope hopes hoped like
    likes liked love loves loved hate hates hated prefer prefers preferred need needs needed wish wishes
    claim claims claimed report reports reported hear hears heard remember remembers suggest suggests
    suggested expect expects expected agree agrees agreed explain explains explained announce announces
    announced enjoy enjoys enjoyed dislike dislikes disliked avoid avoids avoided hardly barely seldom
    stop stops stopped fail fails failed refuse refuses refused deny denies denied allow allows allowed
    used see sees saw find finds found let lets make makes made help helps seem seems appear appears
    """
)
"""Where one of these stands in the main clause, a phrase may belong to a part of it, so it is not moved."""

SET_VERBS = word_set(
    """
    speaks knows likes loves enjoys hates dislikes plays owns uses use supports collects teaches studies grows sells
    includes contains needs eats drinks avoids
    """
)
"""Verbs whose list of objects is a set: its order says nothing. Not among them: prefers, runs, visited."""

COUNTRIES = word_set(
    """
    argentina australia austria belgium brazil bulgaria canada chile china colombia croatia cuba cyprus
    denmark egypt estonia ethiopia finland france georgia germany ghana greece hungary iceland india
    indonesia iran iraq ireland israel italy jamaica japan kenya latvia lebanon lithuania luxembourg
    malaysia malta mexico morocco nepal netherlands nigeria norway pakistan peru philippines poland
    portugal romania russia scotland serbia singapore slovakia slovenia spain sweden switzerland taiwan
    thailand tunisia ukraine uk usa vietnam wales texas ohio california florida oregon
    """
)

# The verbs that "I" may stand before when it is the user who speaks. Agents write "I" too, but of what they
# did or will do, so deeds and promises (sent, fixed, will, should) are not here.
_BASE_VERBS = """
like love enjoy hate dislike prefer want use work live own play speak drink eat drive teach study
wear collect travel commute sleep smoke cycle swim lead weigh suffer rent vote belong paint sing dance ski
climb bake volunteer
"""


def _third_person(verb: str) -> str:
    if verb.endswith(("ch", "sh", "ss", "x")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


THIRD_PERSON = {verb: _third_person(verb) for verb in _BASE_VERBS.split()}
THIRD_PERSON |= {"do": "does", "am": "is", "can": "can"}

ENGLISH_STRONG = word_set(
    """
    the and user user's users with from they she he his her their who which that this does not every my i
    am likes loves hates prefers uses works lives wants needs owns has have speaks favorite favourite
    birthday are team project should must never always use some most by if of he's she's it's
    """
) | frozenset(CONTRACTIONS)
ENGLISH_WEAK = word_set("is was to for in on at a an as be it do can will were been all no or but when run need")
FOREIGN_MARKERS = word_set(
    """
    der das und ist nicht ein eine einen mit für ich zu im den dem von auf sie wir el los las un una es y
    del que con por para mi yo su se al lo le les des du et est une je ne pas nous il gli che di è e non
    sono io o os um uma não em eu da het een niet van ik zijn op och att det som på jag og er på ikke ja
    nie jest się w z na bir ve için ben
    """
)
"""Frequent words of other languages that are rare in English. They speak against English."""
