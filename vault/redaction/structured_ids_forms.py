"""National identity numbers: the words for each, how it is written, and which check it has."""
# ruff: noqa: RUF001 - words of other scripts

from __future__ import annotations

from typing import Final, NamedTuple


class Id(NamedTuple):
    """Words for a number (none: b""), its form (both RE2), its check in stdnum: country and module, or none.

    ``near``: without a check, the form is so much its own that it need not follow its word at once.
    ``scripts``: words for it in other scripts than Latin, parted by commas.
    """

    words: bytes
    form: bytes
    check: tuple[str, str] | None = None
    near: bool = False
    scripts: str = ""


_NINE: Final = rb"[0-9]{3}[ .-]?[0-9]{3}[ .-]?[0-9]{3}"
_TEN: Final = rb"[0-9]{6}[ /+-]?[0-9]{4}"
_ELEVEN: Final = rb"[0-9]{3}[ .]?[0-9]{3}[ .]?[0-9]{3}[ .-]?[0-9]{2}"
_SSN: Final = rb"\bssn|social[ _-]?security"
_PERSONAL_NUMBER: Final = rb"personnummer|f\xffdselsnummer|fodselsnummer|personal number"

# Form without a check: the number has none, or what people write for one is to be hidden as well.
IDS: Final = (
    Id(_SSN, rb"[0-9]{3}[ -][0-9]{2}[ -][0-9]{4}", near=True),
    Id(_SSN, rb"[0-9]{9}"),
    Id(rb"\bitin\b|taxpayer", rb"9[0-9]{2}[ -]?[0-9]{2}[ -]?[0-9]{4}"),
    Id(rb"\bnino\b|national[ _-]?insurance", rb"[A-Za-z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-Da-d]"),
    Id(rb"\bnhs", rb"[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{4}", ("gb", "nhs")),
    Id(
        rb"steuer-?id|identifikationsnummer|\bidnr|tax[ _-]?id|\btin\b",
        rb"[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{3}",
        ("de", "idnr"),
    ),
    Id(
        rb"sozialversicherung|rentenversicherung|versicherungsnummer|\bsvnr",
        rb"[0-9]{2} ?[0-9]{6} ?[A-Za-z] ?[0-9]{3}",
    ),
    Id(rb"versicherungsnummer|\bsvnr|\bvnr\b", rb"[0-9]{4} ?[0-9]{6}", ("at", "vnr")),
    Id(rb"personalausweis|ausweisnummer|ausweis-nr", rb"[0-9A-Za-z]{9}[0-9]?"),
    Id(
        rb"\bnir\b|s\xffcurit\xff sociale|securite sociale|\binsee\b|num\xffro de s\xffcu",
        rb"[12] ?[0-9]{2} ?[0-9]{2} ?[0-9][0-9ABab] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}",
        ("fr", "nir"),
    ),
    Id(rb"\bdni\b|\bnif\b", rb"[0-9]{7,8}[ -]?[A-Za-z]", ("es", "dni")),
    Id(rb"\bnie\b|\bnif\b", rb"[XYZxyz][ -]?[0-9]{7}[ -]?[A-Za-z]", ("es", "nie")),
    Id(
        rb"codice[ _-]?fiscale|cod\. ?fisc|fiscal[ _-]?code",
        rb"[A-Za-z]{6} ?[0-9A-Za-z]{2}[A-Za-z][0-9A-Za-z]{2} ?[A-Za-z][0-9A-Za-z]{3}[A-Za-z]",
        ("it", "codicefiscale"),
    ),
    Id(rb"\bbsn\b|burgerservice|sofi-?nummer", rb"[0-9]{3,4}[ .]?[0-9]{2}[ .]?[0-9]{3}", ("nl", "bsn")),
    Id(
        rb"rijksregister|registre national|national (?:register )?number|\bniss\b|\binsz\b",
        rb"[0-9]{2}[ .]?[0-9]{2}[ .]?[0-9]{2}[ -]?[0-9]{3}[ .]?[0-9]{2}",
        ("be", "nn"),
    ),
    Id(rb"\bcpf\b", _ELEVEN, ("br", "cpf")),
    Id(rb"\bpesel\b", rb"[0-9]{11}", ("pl", "pesel")),
    Id(_PERSONAL_NUMBER, rb"(?:[0-9]{2})?[0-9]{6}[ +-]?[0-9]{4}", ("se", "personnummer")),
    Id(_PERSONAL_NUMBER, rb"[0-9]{6} ?[0-9]{5}", ("no", "fodselsnummer")),
    Id(rb"\bcpr\b|" + _PERSONAL_NUMBER, rb"[0-9]{6}[ -]?[0-9]{4}", ("dk", "cpr")),
    Id(
        rb"\bhetu\b|henkil\xfftunnus|personal identity",
        rb"[0-9]{6}[-+A-FU-Ya-fu-y][0-9]{3}[0-9A-Za-z]",
        ("fi", "hetu"),
    ),
    Id(rb"\bkennitala", _TEN, ("is", "kennitala")),
    Id(rb"\bahv|\bavs\b", rb"756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}", ("ch", "ssn")),
    Id(rb"\bnif\b|contribuinte", _NINE, ("pt", "nif")),
    Id(rb"social[ _-]?insurance|\bsin\b", _NINE, ("ca", "sin")),
    Id(rb"tax[ _-]?file|\btfn\b", rb"[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{2,3}", ("au", "tfn")),
    Id(rb"\bird\b", rb"[0-9]{2,3}[ -]?[0-9]{3}[ -]?[0-9]{3}", ("nz", "ird")),
    Id(rb"aadhaa?r|uidai", rb"[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}", ("in", "aadhaar")),
    Id(rb"\bpan\b|permanent account", rb"[A-Za-z]{5}[0-9]{4}[A-Za-z]", ("in", "pan")),
    Id(rb"\bcurp\b", rb"[A-Za-z]{4}[0-9]{6}[A-Za-z]{6}[0-9A-Za-z][0-9]", ("mx", "curp")),
    Id(rb"\brfc\b", rb"[A-Za-z&]{3,4}-?[0-9]{6}-?[0-9A-Za-z]{3}", ("mx", "rfc")),
    Id(rb"resident identity|\bric\b|chinese id", rb"[0-9]{17}[0-9Xx]", ("cn", "ric")),
    Id(rb"resident registration|\brrn\b", rb"[0-9]{6}-?[0-9]{7}", ("kr", "rrn")),
    Id(rb"kimlik", rb"[0-9]{11}", ("tr", "tckimlik")),
    Id(rb"south african id|\brsa id|\bsa id", rb"[0-9]{13}", ("za", "idnr")),
    Id(rb"teudat|mispar zehut|israeli id", rb"[0-9]{8}-?[0-9]", ("il", "idnr")),
    Id(rb"\bcnp\b|numeric personal", rb"[0-9]{13}", ("ro", "cnp")),
    Id(rb"\begn\b", rb"[0-9]{10}", ("bg", "egn"), scripts="егн,единен граждански номер"),
    Id(b"", rb"[0-9]{10}", ("bg", "pnf"), scripts="лнч,личен номер на чужденец"),
    Id(rb"\binn\b", rb"[0-9]{12}", ("ru", "inn"), scripts="инн,идентификационный номер налогоплательщика"),
    Id(
        rb"\bsnils\b",
        rb"[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{2}",
        near=True,
        scripts="снилс",
    ),
    Id(
        b"",
        rb"(?:[0-9]{2} ?[0-9]{2} ?(?:\xff|\xa0)? ?[0-9]{6}|\xff{2} ?[0-9]{6}|[0-9]{9})",
        scripts="паспорт,паспорта,паспортные данные",
    ),
    Id(rb"\brnokpp\b", rb"[0-9]{10}", ("ua", "rntrc"), scripts="рнокпп,іпн"),
    Id(rb"\biin\b", rb"[0-9]{12}", scripts="иин,жсн"),
    Id(
        rb"\bem\xffo\b|\bemso\b|\bjmbg\b|\bembg\b|mati\xffn[ai] (?:broj|\xfftevilka)",
        rb"[0-9]{13}",
        ("si", "emso"),
        scripts="јмбг,ембг,матични број",
    ),
    Id(rb"dav\xffna \xfftevilka", rb"[0-9]{8}", ("si", "ddv")),
    Id(rb"ad\xffsz\xffm|\badoszam", rb"[0-9]{8}", ("hu", "anum")),
    Id(rb"ad\xffsz\xffm|\badoszam", rb"[0-9]{8}-[1-5]-[0-9]{2}", near=True),
    Id(rb"ad\xffazonos\xfft\xff|adoazonosito", rb"8[0-9]{9}", near=True),
    Id(rb"\btaj[- ]?sz\xffm|\btaj\b", rb"[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{3}"),
    Id(
        rb"szem\xfflyi (?:sz\xffm|azonos\xfft\xff)",
        rb"[1-8][ -]?[0-9]{6}[ -]?[0-9]{4}",
        near=True,
    ),
    Id(rb"dow\xffd(?: osobist[a-z]{1,4})?", rb"[A-Za-z]{3} ?[0-9]{6}"),
    Id(
        rb"cart\xffo de cidad\xffo",
        rb"[0-9]{8} ?[0-9] ?[0-9A-Za-z]{2} ?[0-9]",
        ("pt", "cc"),
    ),
    Id(rb"\bmatricule", rb"[12][0-9]{3} ?[0-9]{4} ?[0-9]{5}"),
    Id(rb"num\xffro fiscal", rb"[0-3][0-9] ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{3}"),
    Id(rb"carta d'identit\xff", rb"[A-Za-z]{2} ?(?:[0-9]{5} ?[A-Za-z]{2}|[0-9]{7})"),
    Id(rb"\butr\b|unique taxpayer", rb"[0-9]{5} ?[0-9]{5}", ("gb", "utr")),
    Id(
        rb"\bmedicare|\bmbi\b",
        rb"[1-9][A-Za-z][0-9A-Za-z][0-9]-?[A-Za-z][0-9A-Za-z][0-9]-?[A-Za-z]{2}[0-9]{2}",
        near=True,
    ),
    Id(rb"\bmedicare", rb"[2-6][0-9]{3} ?[0-9]{5} ?[0-9]"),
    Id(rb"\bphn\b|personal health number", rb"9[0-9]{3} ?[0-9]{3} ?[0-9]{3}", ("ca", "bc_phn")),
    Id(rb"\bcnic\b", rb"[0-9]{5}-?[0-9]{7}-?[0-9]", ("pk", "cnic")),
    Id(rb"voter id|\bepic\b", rb"[A-Za-z]{3}[0-9]{7}", ("in", "epic")),
    Id(rb"\bnpwp\b", rb"[0-9]{2}\.?[0-9]{3}\.?[0-9]{3}\.?[0-9]-?[0-9]{3}\.?[0-9]{3}", ("id", "npwp")),
    Id(rb"\bcccd\b|\bcmnd\b|c\xffn c\xff\xffc", rb"(?:[0-9]{12}|[0-9]{9})"),
    Id(rb"\bnin\b|\bbvn\b", rb"[0-9]{11}"),
    Id(b"", rb"[0-9]{9}", ("gr", "vat"), scripts="αφμ,α.φ.μ."),
    Id(b"", rb"[A-Za-z\xff]{1,2}[ -]?[0-9]{6}", scripts="αδτ,α.δ.τ.,αριθμός ταυτότητας"),
    Id(b"", rb"[0-9]{8}-?[0-9]", ("il", "idnr"), scripts="תעודת זהות,מספר זהות,ת.ז,ת״ז"),
    Id(
        b"",
        rb"(?:[23][0-9]{13}|[12][0-9]{9}|784-?[0-9]{4}-?[0-9]{7}-?[0-9])",
        scripts="الرقم القومي,رقم الهوية,رقم البطاقة,رقم الإقامة",
    ),
    Id(b"", rb"[0-9]{3}-?[0-9]{6}-?[0-9]", scripts="کد ملی,شماره ملی"),
    Id(b"", rb"[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}", ("in", "aadhaar"), scripts="आधार"),
    Id(
        rb"\bmynumber\b|individual number",
        rb"[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}",
        ("jp", "in_"),
        scripts="マイナンバー,個人番号",
    ),
    Id(b"", rb"[A-Za-z][12][0-9]{8}", scripts="身分證,身份證,統一編號"),
    Id(
        b"",
        rb"[0-9]-?[0-9]{4}-?[0-9]{5}-?[0-9]{2}-?[0-9]",
        ("th", "pin"),
        scripts="บัตรประชาชน,ประจำตัวประชาชน",
    ),
    Id(rb"rodn\xff|rodne|birth number", rb"[0-9]{6}/?[0-9]{3,4}", ("cz", "rc")),
    Id(rb"\boib\b", rb"[0-9]{11}", ("hr", "oib")),
    Id(rb"\bpps", rb"[0-9]{7}[A-Wa-w][A-Ia-iWw]?", ("ie", "pps")),
    Id(rb"asmens kodas", rb"[0-9]{11}", ("lt", "asmens")),
    Id(rb"isikukood", rb"[0-9]{11}", ("ee", "ik")),
    Id(rb"personas kods", rb"[0-9]{6}-?[0-9]{5}", ("lv", "pvn")),
    Id(rb"\bamka\b", rb"[0-9]{11}", ("gr", "amka"), scripts="αμκα,α.μ.κ.α."),
    Id(rb"\brut\b", rb"[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}-?[0-9Kk]", ("cl", "rut")),
    Id(rb"\bdni\b", rb"[0-9]{2}\.?[0-9]{3}\.?[0-9]{3}", ("ar", "dni")),
    Id(rb"\bcui[tl]\b", rb"[0-9]{2}-?[0-9]{8}-?[0-9]", ("ar", "cuit")),
    Id(rb"\bnric\b|mykad", rb"[0-9]{6}-?[0-9]{2}-?[0-9]{4}", ("my", "nric")),
    Id(rb"\bnric\b|\bfin\b", rb"[STFGMstfgm][0-9]{7}[A-Za-z]"),
    Id(rb"\bnik\b|\bktp\b", rb"[0-9]{16}", ("id", "nik")),
    Id(rb"thai id", rb"[0-9]-?[0-9]{4}-?[0-9]{5}-?[0-9]{2}-?[0-9]", ("th", "pin")),
    Id(rb"passport|reisepass|passeport|pasaporte|passaporto|paspoort", rb"[A-Za-z]{0,3}[0-9]{6,9}[A-Za-z]?"),
    Id(rb"passport|reisepass|ausweis", rb"[CFGHJKcfghjk][0-9CFGHJKLMNPRTVWXYZ]{8}[0-9]?"),
    Id(
        rb"driv\w*[ _']{0,2}s?[ _-]?(?:licen[cs]e|permit)|dl number|f\xffhrerschein|permis de conduire",
        rb"[0-9A-Za-z]{1,5}[ -]?[0-9]{2,8}(?:-?[0-9A-Za-z]{2,6}| [0-9]{2,6}){0,3}",
    ),
    Id(
        rb"national[ _-]?id|identity (?:card|number)|identification number|c\xffdula|cedula",
        rb"[A-Za-z]{0,2}[0-9][0-9 .\-/]{5,16}[0-9A-Za-z]",
    ),
)
