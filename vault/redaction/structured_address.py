"""Streets and postcodes: told by how a street is named in several languages, or by the name of a field."""
# ruff: noqa: RUF001 - words of other scripts

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vault.redaction.normalise import Reading
from vault.redaction.patterns import linear
from vault.redaction.structured_scripts import ScriptWords

#: A capitalised word of a name.
WORD: Final = rb"[A-Z\xff][A-Za-z\xff'-]{1,24}"

_SUFFIX: Final = (
    rb"(?:Street|St|Avenue|Ave|Road|Rd|Drive|Dr|Lane|Ln|Boulevard|Blvd|Way|Court|Ct|Place|Pl|"
    rb"Terrace|Square|Sq|"
    rb"Parkway|Pkwy|Highway|Hwy|Circle|Cir|Trail|Trl|Crescent|Close|Mews|Gardens|Grove|Broadway)"
)
_UNIT: Final = rb"(?:,? (?:Suite|Apt|Apartment|Unit|Ste|Floor|Flat|Room|#)\.? ?#?[0-9A-Za-z-]{1,6})?"
# A house number with what follows it: "12 b", "3/2", "12/14/3", "7-9", "5/12".
_NUMBER: Final = rb" [0-9]{1,4}(?: ?[A-Za-z]\b)?(?:[/-][0-9]{1,4}[A-Za-z]?){0,3}\b"
_STREETS: Final = (
    # 833 Highland Drive, Suite 740
    rb"\b[0-9]{1,6}[A-Za-z]?(?:[-/][0-9]{1,4})? (?:[NSEW]\.? |(?:North|South|East|West) )?"
    rb"(?:[A-Z0-9\xff][A-Za-z0-9\xff'.-]{1,24} ){1,4}" + _SUFFIX + rb"\b\.?" + _UNIT,
    # Hauptstraße 12, Prinsengracht 263
    rb"\b[A-Z\xff][A-Za-z\xff-]{2,30}(?:stra(?:\xff|ss)e|str\.|platz|allee|gasse|damm|ufer|straat|laan|plein|"
    rb"gracht|kade|steeg|singel|dijk|dreef|weg|steig|promenade|br\xffcke|v\xffgen|gatan|gr\xffnd|stigen|"
    rb"torget|vej|all\xff|veien|vegen|katu|kuja|polku)" + _NUMBER,
    # ulica Polna 5/12, ul. 3 Maja 7
    (
        rb"\b(?:[Uu]lica|[Uu]l\.|[Aa]leja|Al\.|[Oo]siedle|[Oo]s\.|[Pp]lac|[Pp]l\.) ?"
        rb"(?:[0-9A-Z\xff][A-Za-z\xff.-]{0,24} ){1,4}[0-9]{1,4}[A-Za-z]?(?:/[0-9]{1,4})?\b"
    ),
    rb"\b[A-Z\xff][A-Za-z\xff-]{2,30} (?:Stra(?:\xff|ss)e|Str\.|Platz|Allee|Weg|Ring|Damm|Ufer)" + _NUMBER,
    # 12 rue de la Paix
    rb"\b[0-9]{1,4}(?: ?(?:bis|ter))?,? (?:rue|avenue|av\.|boulevard|bd|chemin|impasse|all\xffe|quai) "
    rb"(?:de la |de l'|de |du |des |d'|la |le |les )?" + WORD + rb"(?:[ -]" + WORD + rb"){0,3}",
    # Calle Mayor 5, Via Roma 12
    rb"\b(?:Calle|C/|Avenida|Avda\.?|Av\.|Paseo|Plaza|Pza\.?|Ronda|Rambla|Camino|Carretera|Ctra\.?|Glorieta|"
    rb"Pasaje|Cuesta|Urbanizaci\xffn|Callej\xffn|V\xffa|Carrer|Via|Viale|Piazza|Piazzale|Vicolo|Corso|Largo|"
    rb"Contrada|Strada|Borgo|Rua|Travessa|Alameda|Pra\xffa|Rodovia|Estrada|Viela|Ladeira|Quadra|"
    rb"Conjunto|Vila) "
    rb"(?:del? |della |dei |la |las |los |el |do |da )?" + WORD + rb"(?: " + WORD + rb"){0,3}"
    rb",? (?:n\.?\xff? ?)?[0-9]{1,4}\b",
    rb"\bP\.? ?O\.? ?Box [0-9]{1,6}\b|\bPostfach [0-9]{1,6}\b",
)
_STREET: Final = linear(rb"|".join(_STREETS))
# In lower case "5 minutes to drive" is no street, so there a word must say that an address follows.
_SAID: Final = linear(
    rb"(?:\baddress\b|\bliv(?:e|es|ed|ing) (?:at|on)|\breside[sd]? (?:at|on)|ship(?:ped|ping)? to|"
    rb"deliver\w* to|mov(?:e|ed|ing) to)[^0-9\n]{0,24}"
    rb"([0-9]{1,6}[A-Za-z]? (?:[A-Za-z\xff'.-]{2,24} ){1,4}" + _SUFFIX + rb"\b\.?" + _UNIT + rb")",
    ignore_case=True,
)
_FIELD: Final = linear(
    rb"(?:^|[\"'{,\s])(?:(?:[a-z]{1,12}[ _-]?)?(?:street|address[ _-]?(?:line)?[ _-]?[1-3]|"
    rb"street[ _-]?address|"
    rb"addr[1-3]|stra(?:\xff|ss)e|calle)|(?:home|billing|shipping|mailing|postal)[ _-]?address|line[12]\")"
    rb"[\"']?\s{0,2}[:=]\s{0,2}(?:\"([^\"\n\r]{3,120})|'?([^\"'\n\r{}\[\]<>:;]{3,120}))",
    ignore_case=True,
)

# A postcode: US, BR, GB, CA, IE, NL, JP, PT, PL, SE, LV, and those of four to eight digits (UPU S42).
# Of two that begin alike the longer one comes first.
_CODE: Final = (
    rb"(?:[0-9]{5}-[0-9]{3,4}|[0-9]{8}|[A-Z]{1,2}[0-9][A-Z0-9]? ?[0-9][A-Z]{2}|"
    rb"[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9]|[A-Z][0-9]{2} ?[0-9A-Z]{4}|[0-9]{4} ?[A-Z]{2}|[0-9]{3}-[0-9]{4}|"
    rb"[0-9]{4}-[0-9]{3}|[0-9]{2}-[0-9]{3}|"
    rb"[A-Z]{1,3}-[0-9]{4,6}|[0-9]{2} [0-9]{3}|[0-9]{3} [0-9]{2,3}|[0-9]{4,7})"
)
_CODE_SAID: Final = linear(
    rb"(?:\bzip(?:[ _-]?code)?|post(?:al)?[ _-]?code|\bplz|postleitzahl|code postal|c\xffdigo postal|"
    rb"\bpin ?code|\bc\.a\.p\.|codice (?:di avviamento )?postale|\bcep\b|codi postal|"
    rb"kodu? pocztow[a-z]{1,3}|postn(?:umme)?r|postinumero|\bps\xff|ir\xffny\xfft\xffsz\xffm|"
    rb"cod po\xfftal|posta kodu|eircode|"
    rb"po\xfftanski broj|po\xfftna \xfftevilka|sihtnumber|postiindeks|pasta indekss|pa\xffto kodas|kode ?pos|"
    rb"poskod|(?-i:\bCAP\b))[\"']?\s{0,2}(?:[:=]|=>|\bis\b|\bwas\b)?\s{0,2}[\"'(]{0,2}(" + _CODE + rb")\b",
    ignore_case=True,
)
# The same in other scripts: Russian, Ukrainian, Serbian; Greek; Japanese, Chinese, Korean; Hebrew; Arabic;
# Hindi; Thai.
_CODE_SCRIPTS: Final = (
    "почтовый индекс,индекс,поштовий індекс,індекс,пощенски код,поштански број,ταχυδρομικός κώδικας,τ.κ.,"
    "郵便番号,〒,邮编,邮政编码,郵遞區號,우편번호,מיקוד,الرمز البريدي,पिन कोड,รหัสไปรษณีย์"
)
_CODE_WORDS: Final = ScriptWords(dict.fromkeys(_CODE_SCRIPTS.split(","), "ZIP"))
_CODE_FOLLOWS: Final = linear(rb"^[\"']?[ :=\xa0]{0,3}[\"']?(" + _CODE + rb")(?:[^0-9A-Za-z]|$)")
_CODE_WINDOW: Final = 24
_CODE_OF_STATE: Final = linear(
    rb"[A-Z][A-Za-z.]+,? (?:A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|"
    rb"PA|RI|S[CD]|T[NX]|UT|V[AT]|W[AIVY]),? ([0-9]{5}(?:-[0-9]{4})?)\b"
)
_CODE_AFTER_STREET: Final = linear(
    rb"(?:^|[^0-9A-Za-z\xff])((?:[A-Z]{1,2}-)?(?:[0-9]{5}(?:-[0-9]{4})?|[A-Z]{1,"
    rb"2}[0-9][A-Z0-9]? ?[0-9][A-Z]{2}|"
    rb"[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9]|[0-9]{4} ?[A-Z]{2}|[0-9]{4}))\b"
)
_STREET_TO_CODE: Final = 48  # characters: a town and a state

#: One of these, in lower case, is in every text in which `streets` finds something.
STREET_SIGNS: Final = (
    "street, st, ave,avenue,road, rd,drive, dr,lane, ln,boulevard,blvd, way,court, ct,place, pl,"
    "terrace,square,"
    " sq,parkway,pkwy,highway,hwy,circle, cir,trail, trl,crescent,close,mews,gardens,grove,broadway,"
    "stra,str.,"
    "platz,allee,gasse,damm,ufer,laan,plein,gracht,kade,weg, ring,rue ,bd ,av.,chemin,impasse,all\xff,quai,"
    "steeg,singel,dijk,dreef,steig,promenade,br\xffcke,v\xffgen,gatan,gr\xffnd,stigen,torget,vej,veien,"
    "vegen,katu,kuja,polku,ulica,ul.,aleja,al.,osiedle,os.,plac,pl.,"
    "calle,c/,avda,avenida,paseo,plaza,pza,ronda,rambla,camino,carretera,ctra,glorieta,pasaje,cuesta,urbani,"
    "v\xffa,carrer,via,piazza,vicolo,corso,largo,contrada,borgo,rua ,travessa,alameda,pra\xffa,rodovia,"
    "estrada,viela,ladeira,quadra,conjunto,vila ,box,postfach,addr,line"
)
#: The same for `postcodes`, which also needs nothing but digits for the postcode of an American state.
POSTCODE_SIGNS: Final = (
    "zip,post,plz,digo,pin,cap,c.a.p.,cep,codi,kod,ps\xff,ir\xffny,po\xff,eircode,sihtn,indeks,kodas,pos,"
    "\xff\xff\xff,\xff.\xff.,\xfe\xfe,\xa0"
)


def streets(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Streets with house numbers, the postcode that follows one, and what a field for a street holds."""
    for match in _STREET.finditer(data):
        yield match.start(), match.end(), "STREET"
        code = _CODE_AFTER_STREET.search(data[match.end() : match.end() + _STREET_TO_CODE])
        if code:
            yield match.end() + code.start(1), match.end() + code.end(1), "ZIP"
    for match in _SAID.finditer(data):
        yield match.start(1), match.end(1), "STREET"
    for match in _FIELD.finditer(data):
        group = 1 if match.start(1) >= 0 else 2
        yield match.start(group), match.end(group), "STREET"


def postcodes(reading: Reading) -> Iterator[tuple[int, int, str]]:
    """Postcodes after a word for one."""
    for match in _CODE_SAID.finditer(reading.data):
        yield match.start(1), match.end(1), "ZIP"
    for _, end, kind in _CODE_WORDS.find(reading):
        match_after = _CODE_FOLLOWS.search(reading.data[end : end + _CODE_WINDOW])
        if match_after:
            yield end + match_after.start(1), end + match_after.end(1), kind


def state_postcodes(data: bytes) -> Iterator[tuple[int, int, str]]:
    """American postcodes after the abbreviation of their state."""
    for match in _CODE_OF_STATE.finditer(data):
        yield match.start(1), match.end(1), "ZIP"
