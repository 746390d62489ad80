"""The closed classes of words with which ``clauses`` reads a text.

A word in none of them is read as a verb that asks for another act. So a word that is missing from a
class costs a question, but a word that does not belong there could pass a value.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


JOINS = _words(
    "and or but then so plus & und oder aber dann et ou puis y o pero sondern mais while"
)
"""Words that join two clauses, or two items of a list."""

ANDS = _words("and und et y & plus also")
"""Words that join two items of a list."""

ALSO = frozenset(("too", "also", "likewise", "as well"))
"""Words that add one more item to anything said before."""

INCLUDES = _words("including includes include incl")
"""Words that name some of the people mentioned before."""

OWN_ARTICLES = _words("the a an my your his her its our their")
"""Words that start a named thing."""

ARTICLES = OWN_ARTICLES | _words("this that these those each every both all")
"""Words that come before a thing, but not before a name."""

PARTICLES = _words("back over out up on please now today again just only")
"""Words that may follow a verb without an object."""

SUBJECTS = _words(
    "i you he she it we they this that these those there here who what which where when why how"
    " whose whom my your his her its our their the a an am is are was were do does did has have"
    " had if as because since although though unless until once whenever ich er sie es wir das der"
    " die"
)
"""Words that start a clause that asks for nothing."""

ONWARD = _words(
    "to for with at on in by from of via as per cc bcc into onto over under about after before"
    " until the a an my your his her its our their this that these those all both each every"
    " everybody everyone anybody nobody none any some another more most one two three four five"
    " six seven eight nine ten twelve me us them him it too again together only maybe not never no"
    " neither nor except excluding besides without minus barring für mit à pour con para euros"
    " euro dollars dollar usd eur pounds half who which whose where when according instead rather"
    " other apart"
)
"""Words that may continue a clause after a comma or an "and"."""

LOOKS = _words(
    "read look see check find open review summarise summarize search get show list fetch visit"
    " consult tell give take go choose pick recommend suggest count sort analyse analyze explain"
    " describe translate figure do perform follow compare know wait think consider use"
)
"""Verbs that change nothing; a later "it" may mean their object."""

ACTS = _words(
    "pay send mail email e-mail message write post share forward invite add append create make"
    " book reserve cancel delete remove update change set move copy transfer refund schedule"
    " reschedule ask call notify inform remind thank greet block skip ignore refuse reject avoid"
    " keep leave drop exclude omit buy order sell ship return reply respond answer upload download"
    " publish print save edit rename grant revoke assign close reopen merge approve decline accept"
    " subscribe unsubscribe report archive attach include charge bill credit give lend owe text"
    " ping contact"
)
"""Verbs that may be capitalised; none of them is a name."""

LIGHT = _words("make do place create set book issue get give arrange need want start have")
"""Verbs that take the act as a noun: "make a payment"."""

DIRECT = _words(
    "invite add notify inform remind call ask tell thank greet contact ping message text block"
)
"""Verbs whose object is the recipient: "Invite Ada to Slack"."""

REFERS = _words("it them that this these those there")
"""Words that may refer to something that was looked at before."""

GOES_TO = _words("to with cc bcc including include includes an à toward towards")
"""Words that come before the recipient."""

TO = _words("to an à toward towards")
"""The words of ``GOES_TO`` that a verb has only once."""

PEOPLE = _words(
    "friend friends wife husband mother father brother sister son daughter boss colleague"
    " colleagues landlord customer client manager team assistant partner neighbour neighbor mr mrs"
    " ms dr prof user users recipient recipients participant participants person people channel"
    " channels everyone everybody contact contacts member members"
)
"""Words for people without a name."""

BESIDE = PEOPLE | _words(
    "the a an my your his her its our their also both all each only new old this these following"
    " account accounts address addresses email e-mail iban number no nr id back over on it them"
    " that out up"
)
"""Words that may come between a verb or "to" and the recipient."""

LABELS = _words(
    "recipient recipients participant participants payee beneficiary receiver receivers address"
    " addresses email e-mail mail account iban number no nr id to cc bcc the his her its their my"
    " our new is are be will it this that goes go for should name names user amount rent price"
    " total sum of fee"
)
"""Words that may label a value: "her new address is"."""

COPULAS = _words("is are be goes go")
"""Verbs that say what something is."""

MONEY = _words(
    "euro euros eur usd dollar dollars bucks pound pounds gbp chf franc francs yen jpy cent cents"
    " rupee rupees inr each apiece"
)
"""Words that appear next to an amount."""

NESTS = _words(
    "that which who whom whose what whatever whoever where when because since if as while after"
    " before until unless like than how why whether"
)
"""Words that start a subordinate clause."""

PAST = _words(
    "wants likes needs knows thinks hopes asks tells lives works owns "
    "wrote sent gave told said paid lent showed shown owes owe belongs belong got was were is are"
    " has had did says gives sends writes read made went came left forwards pays"
)
"""Verbs with a subject of their own: "the mail Eve wrote"."""

DOERS = _words(
    "must should can will would may might shall cannot does do aside out alone"
    " who whose or oder ou o instead nothing zero none"
)
"""Words that follow a name that acts itself, or is one of several."""

APART = _words(
    "but except excepting excluding besides barring minus without save not never nor neither"
    " unlike versus vs außer ohne statt sauf sans salvo excepto nicht kein keine pas no"
)
"""Words that come before something that is excluded."""

SOCIAL = _words(
    "thanks thank hi hey hello dear sorry cheers regards best greetings great perfect good"
)
"""Words that are only a greeting."""

NOT_TO = _words(
    "thanks due according next addition response reply answer regard regards contrary similar close"
    " hello greetings relation respect subject thanking prior owing near opposed attention access"
    " equal reference reminder note invitation link right key visit trip way"
)
"""Words with a "to" of their own: "thanks to Bob"."""

PLAINLY = _words(
    "money payment sum amount total bill rent transfer refund now today tomorrow please"
)
"""Words allowed in the clause of a payment besides the recipient."""

VERBS = LOOKS | ACTS
"""Verbs, however they are written."""

FINITE = PAST | _words("have do does never came arrived broke should must can will would may")
"""Verbs of a sentence that asks for nothing."""

PASSED = (
    (BESIDE - {"no"})
    | (JOINS - {"but"})
    | _words("to with cc bcc from for of by file files order orders event")
)
"""Words that may come between a value and the word that excludes it."""
