"""Verbs and their forms, for the rules that turn a clause round."""

_REGULAR = """
    approve review manage handle maintain own require support host develop design create implement document
    schedule organize lead:led:led run:ran:run write:wrote:written build:built:built make:made:made
    teach:taught:taught sell:sold:sold send:sent:sent pay:paid:paid buy:bought:bought keep:kept:kept hold:held:held
    take:took:taken give:gave:given choose:chose:chosen drive:drove:driven see:saw:seen know:knew:known
    break:broke:broken catch:caught:caught do:did:done draw:drew:drawn eat:ate:eaten
    find:found:found get:got:got grow:grew:grown hear:heard:heard feed:fed:fed meet:met:met read:read:read
    say:said:said sing:sang:sung speak:spoke:spoken spend:spent:spent steal:stole:stolen tell:told:told
    throw:threw:thrown wear:wore:worn win:won:won rewrite:rewrote:rewritten rebuild:rebuilt:rebuilt
    oversee:oversaw:overseen understand:understood:understood cut:cut:cut set:set:set bring:brought:brought
    think:thought:thought leave:left:left lose:lost:lost
    plan:planned:planned ship:shipped:shipped stop:stopped:stopped log:logged:logged debug:debugged:debugged
    refer:referred:referred tag:tagged:tagged map:mapped:mapped
    audit sign check test deploy release publish paint compose translate edit found invent discover record
    direct produce perform train coach mentor supervise coordinate monitor track update upgrade migrate fix repair
    clean cook bake wash prepare serve deliver collect process validate verify confirm accept reject merge commit
    trigger store save load cache encrypt generate calculate compute measure report analyze assess evaluate order
    request book reserve rent lease fund finance sponsor acquire hire employ fire promote recommend suggest
    propose advise assist help guide visit inspect call contact email invite introduce marry adopt raise walk
    water use watch answer ask assign automate block cancel change chair close configure control cover delete
    describe draft enable finish fill follow format gather improve inform install invoice label launch lock
    moderate name open operate own pack pick post power present print protect provide pull push rate receive
    refactor register remove replace resolve restore revise rotate scan schedule score secure select share sort
    start summarize sync teach tune treat view vet wrap
"""

_VOWELS = "aeiou"


def third_person(verb: str) -> str:
    """The form after "she": `approves`, `carries`, `watches`."""
    if verb == "have":
        return "has"
    if verb.endswith(("ch", "sh", "ss", "x", "z", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return verb[:-1] + "ies"
    return verb + "s"


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return verb[:-1] + "ied"
    return verb + "ed"


def _forms() -> dict[str, tuple[str, str]]:
    forms: dict[str, tuple[str, str]] = {}
    for entry in _REGULAR.split():
        base, *irregular = entry.split(":")
        past, participle = irregular or (_past(base), _past(base))
        forms.setdefault(base, (past, participle))
    return forms


FORMS: dict[str, tuple[str, str]] = _forms()
"""Past and participle of each verb."""

BASES: dict[str, str] = {participle: base for base, (_, participle) in FORMS.items()}
"""The verb of each participle; no two verbs share one here."""
