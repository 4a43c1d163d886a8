"""The phrase tables of the deep level: wordings that say the same wherever they stand in a statement."""

from memlane.domain.canonical.words import word_set


def _table(text: str) -> dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]]:
    rows: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for line in filter(str.strip, text.splitlines()):
        left, _, right = line.partition(">")
        words = tuple(left.split())
        rows.setdefault(words[0], []).append((words, tuple(right.split())))
    # The longest comes first.
    return {first: tuple(sorted(found, key=lambda row: -len(row[0]))) for first, found in rows.items()}


PHRASES = _table(
    """
    in order to > to
    due to > because of
    owing to > because of
    lots of > a lot of
    for instance > for example
    is able to > can
    are able to > can
    is unable to > can not
    are unable to > can not
    is not able to > can not
    are not able to > can not
    is located in > is in
    are located in > are in
    is situated in > is in
    are situated in > are in
    is located at > is at
    is located on > is on
    resides in > lives in
    reside in > live in
    resides at > lives at
    is living in > lives in
    are living in > live in
    is residing in > lives in
    is living at > lives at
    is living with > lives with
    is employed as > works as
    is employed at > works at
    is employed by > works for
    are employed by > work for
    comes from > is from
    has to > must
    makes use of > uses
    make use of > use
    utilizes > uses
    utilises > uses
    utilize > use
    utilise > use
    begins > starts
    began > started
    commences > starts
    finishes at > ends at
    finishes on > ends on
    finishes in > ends in
    purchases > buys
    purchased > bought
    has an allergy to > is allergic to
    has allergies to > is allergic to
    has a severe allergy to > is severely allergic to
    has an intolerance to > is intolerant to
    is intolerant to lactose > is lactose intolerant
    is a vegetarian > is vegetarian
    is a vegan > is vegan
    is a pescatarian > is pescatarian
    is a teetotaler > is teetotal
    email address > email
    birthday is on > birthday is
    birthday falls on > birthday is
    at present > currently
    at the moment > currently
    right now > now
    each day > every day
    each week > every week
    each month > every month
    each year > every year
    each morning > every morning
    each evening > every evening
    each night > every night
    each weekend > every weekend
    each monday > every monday
    each tuesday > every tuesday
    each wednesday > every wednesday
    each thursday > every thursday
    each friday > every friday
    each saturday > every saturday
    each sunday > every sunday
    every other day > every 2 days
    every other week > every 2 weeks
    every other month > every 2 months
    every 2nd day > every 2 days
    every 2nd week > every 2 weeks
    every 2nd month > every 2 months
    once every > every
    fortnightly > every 2 weeks
    per second > a second
    per minute > a minute
    per hour > an hour
    per day > a day
    per night > a night
    per week > a week
    per month > a month
    per year > a year
    per person > a person
    twice daily > 2 times a day
    twice weekly > 2 times a week
    twice monthly > 2 times a month
    twice yearly > 2 times a year
    twice > 2 times
    once daily > once a day
    once weekly > once a week
    once monthly > once a month
    once yearly > once a year
    half an hour > 30 minutes
    a half hour > 30 minutes
    mom > mother
    mom's > mother's
    mum > mother
    mum's > mother's
    dad > father
    dad's > father's
    kids > children
    kid > child
    grandma > grandmother
    grandma's > grandmother's
    grandpa > grandfather
    grandpa's > grandfather's
    tv > television
    photo > photograph
    photos > photographs
    fridge > refrigerator
    automobile > car
    automobiles > cars
    cellphone > mobile phone
    cell phone > mobile phone
    info > information
    docs > documentation
    config > configuration
    configs > configurations
    admin > administrator
    admins > administrators
    javascript > js
    mongodb > mongo
    amazon web services > aws
    google cloud platform > gcp
    google cloud > gcp
    new york city > nyc
    united kingdom > uk
    united states of america > usa
    european union > eu
    chief executive officer > ceo
    chief technology officer > cto
    chief financial officer > cfo
    human resources > hr
    user interface > ui
    user experience > ux
    quality assurance > qa
    machine learning > ml
    artificial intelligence > ai
    large language model > llm
    large language models > llms
    multi-factor authentication > mfa
    multifactor authentication > mfa
    two-factor authentication > 2fa
    2-factor authentication > 2fa
    single sign-on > sso
    end of day > eod
    as soon as possible > asap
    out of office > ooo
    paid time off > pto
    virtual private network > vpn
    frequently asked questions > faq
    & > and
    """
)
"""What stands on the left says what stands on the right, in every statement. Nothing on the right is on a left."""

COMPOUNDS = word_set(
    """
    api-key api-keys access-token access-tokens code-review code-reviews pull-request pull-requests dark-mode
    light-mode open-source full-time part-time long-term short-term real-time end-to-end day-to-day
    trunk-based test-driven data-driven event-driven follow-up follow-ups stand-up stand-ups check-in check-ins
    feature-flag feature-flags unit-test unit-tests load-balancer load-balancers rate-limit rate-limits
    time-zone time-zones lactose-intolerant gluten-free sugar-free dairy-free vegan-friendly dog-friendly
    left-handed right-handed night-shift home-office coffee-machine credit-card credit-cards phone-number
    phone-numbers ice-cream status-update status-updates bullet-points bullet-point release-notes user-interface
    error-messages error-message log-files log-file source-code style-guide road-bike mountain-bike
    sign-off time-off week-end
    """
)
"""Compounds written with a hyphen or without. In general a hyphen says what belongs together, and stays."""

ONE_WORD = {
    "e-mail": "email",
    "e-mails": "emails",
    "e-book": "ebook",
    "e-books": "ebooks",
    "wi-fi": "wifi",
    "web-site": "website",
    "web-sites": "websites",
    "front-end": "frontend",
    "back-end": "backend",
    "data-base": "database",
    "on-line": "online",
    "off-line": "offline",
    "post-mortem": "postmortem",
    "post-mortems": "postmortems",
    "data-set": "dataset",
    "data-sets": "datasets",
    "stand-up": "standup",
    "stand-ups": "standups",
    "stand-up's": "standup's",
    "week-end": "weekend",
    "hard-coded": "hardcoded",
    "time-zone": "timezone",
    "time-zones": "timezones",
    "co-worker": "coworker",
    "co-workers": "coworkers",
    "micro-services": "microservices",
    "micro-service": "microservice",
    "home-made": "homemade",
}
"""Words that are written with a hyphen or as one."""
ONE_WORD_PAIRS = {
    ("front", "end"): "frontend",
    ("back", "end"): "backend",
    ("time", "zone"): "timezone",
    ("time", "zones"): "timezones",
    ("web", "site"): "website",
    ("data", "base"): "database",
    ("data", "set"): "dataset",
    ("data", "sets"): "datasets",
}

PETS = word_set(
    """
    cat cats dog dogs rabbit rabbits parrot parrots hamster hamsters horse horses goldfish budgie budgies puppy
    puppies kitten kittens tortoise tortoises turtle turtles ferret ferrets canary canaries gecko geckos pony ponies
    """
)
EVENTS = word_set(
    """
    retrospective retrospectives retro meeting meetings standup standups review reviews demo demos sync workshop
    workshops session sessions party call
    """
)
JOBS = word_set(
    """
    backups backup tests test jobs job builds build migrations migration pipelines pipeline checks check scripts
    script scans scan benchmarks benchmark reports report
    """
)
ALLERGENS = dict.fromkeys(
    word_set("pollen dust milk soy gluten penicillin latex wheat shellfish fish sesame aspirin lactose"), ""
) | dict.fromkeys(word_set("peanut nut egg cat dog bee almond cashew hazelnut walnut shrimp horse"), "s")
"""What a person "has an allergy" of, and what is written onto it after "allergic to"."""

FREQUENCIES = {
    "hourly": "hour",
    "daily": "day",
    "nightly": "night",
    "weekly": "week",
    "monthly": "month",
    "yearly": "year",
    "annually": "year",
}
STRONG_ATTITUDES = word_set("prefers wants needs loves hates")
"""Verbs that "really" adds nothing to. Not among them: likes, whose degree it raises."""

CI_CONTEXT = word_set(
    "github gitlab jenkins circleci actions pipeline pipelines build builds deploys tests runner runners travis"
)
PULL_REQUEST_CONTEXT = word_set(
    "review reviews reviewed reviewer reviewers merge merged merges merging branch branches commit commits github "
    "gitlab approval approvals approved squash squashed description descriptions"
)
