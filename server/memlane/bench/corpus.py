"""Invented sentences and questions: varied, distinct, and the same in every run."""

SENTENCES_MAX = 1 << 20
"""How many distinct sentences there are."""

_STEP = 500_009
"""Odd, so that it visits every number below a power of two once; large, so that neighbours differ."""
_PEOPLE = (
    *("Ada", "Noor", "Tomás", "Wei", "Ingrid", "Kwame", "Lucía", "Piotr"),
    *("Mei", "Omar", "Saoirse", "Yuki", "Dmitri", "Amara", "Elif", "Jonas"),
)
_ACTS = (
    *("moved the weekly planning call", "prefers to review pull requests", "wants the release notes"),
    *("keeps the incident log", "asked for the invoices", "writes the onboarding guide"),
    *("measures the latency budget", "drafts the customer newsletter", "schedules the database upgrade"),
    *("tests the backup restore", "records the podcast interview", "tunes the espresso machine"),
    *("waters the office plants", "books the train tickets", "translates the help pages", "rehearses the demo"),
)
_WHERE = (
    *("in Berlin", "in the Lisbon office", "from the night train", "at the climbing hall", "in Osaka"),
    *("on the fourth floor", "in the staging cluster", "at the harbour", "in the design channel", "from home"),
    *("in Nairobi", "near the lab", "on the shared calendar", "in the Go service", "at the bakery"),
    "in the mobile app",
)
_WHEN = (
    *("before the stand-up", "after lunch", "on Mondays", "at the end of a sprint", "every second Friday"),
    *("during the audit", "when the sensors fail", "in the first week of May", "once the budget is approved"),
    *("before the board meeting", "late in the evening", "while the tests run", "on public holidays"),
    *("as soon as the pager rings", "between two flights", "after the retrospective"),
)
_WHY = (
    *("because the vendor changed its prices", "to spare the team a meeting", "with a checklist of nine steps"),
    *("and shares the result with finance", "so that nobody waits for a signature", "without any attachment"),
    *("for the Atlas project", "since the old tool was retired", "and never by telephone"),
    *("with colour-blind readers in mind", "for the hospital client", "to keep the error rate under one percent"),
    *("as the contract demands", "and keeps a copy on paper", "with two reviewers", "for the summer school"),
)


def sentence(number: int) -> str:
    """The sentence of this number; two numbers below `SENTENCES_MAX` never have the same one.

    Args:
        number: 0 or more; past `SENTENCES_MAX` the sentences begin again.
    """
    act, rest = divmod(number * _STEP % SENTENCES_MAX, 16**4)
    parts = [_ACTS[act]]
    for words in (_WHERE, _WHEN, _WHY):
        rest, place = divmod(rest, 16)
        parts.append(words[place])
    return f"{_PEOPLE[rest]} {' '.join(parts)}."


def question(number: int) -> str:
    """A question that some of the sentences answer."""
    act, rest = divmod(number * _STEP % SENTENCES_MAX, 16**4)
    when, who = divmod(rest // 16, 16)
    return f"Who {_ACTS[act]} {_WHEN[when % 16]}, and what does {_PEOPLE[who]} think of it?"
