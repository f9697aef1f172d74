"""Cards, accounts, addresses, numbers and ids are found by their form and check, or by words around them."""
# ruff: noqa: RUF001 - a full-width colon is a colon

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import get_cc_module

from vault.redaction.normalise import read
from vault.redaction.structured import LOOKUPS_MAX, structured
from vault.redaction.structured_ids_forms import IDS
from vault.redaction.structured_numbers import cards, is_card


def found(text: str, kind: str | None = None) -> list[str]:
    """What is marked in a plain text, in order."""
    spans = sorted(span for span in structured(read(text)) if kind in {None, span.kind})
    return list(dict.fromkeys(read(text).text[span.start : span.end] for span in spans))


def with_check_digit(digits: str) -> str:
    """Luhn's check digit, added by its description in ISO/IEC 7812-1 annex B."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled // 10 + doubled % 10
    return digits + str(-total % 10)


# -------------------------------------------------------------------------------------------------- cards


@pytest.mark.parametrize(
    ("prefix", "length"),
    [
        pytest.param("4", 13, id="Visa 13"),
        pytest.param("4", 16, id="Visa 16"),
        pytest.param("4", 19, id="Visa 19"),
        pytest.param("51", 16, id="Mastercard"),
        pytest.param("55", 16, id="Mastercard, end of range"),
        pytest.param("2221", 16, id="Mastercard 2-series"),
        pytest.param("272099", 16, id="Mastercard 2-series, end of range"),
        pytest.param("34", 15, id="American Express"),
        pytest.param("37", 15, id="American Express 37"),
        pytest.param("6011", 16, id="Discover"),
        pytest.param("6011", 19, id="Discover 19"),
        pytest.param("644", 16, id="Discover 644"),
        pytest.param("3528", 16, id="JCB"),
        pytest.param("3589", 16, id="JCB, end of range"),
        pytest.param("36", 14, id="Diners Club"),
        pytest.param("305", 14, id="Diners Club 305"),
        pytest.param("62", 16, id="UnionPay"),
        pytest.param("62", 19, id="UnionPay 19"),
        pytest.param("5018", 12, id="Maestro 12"),
        pytest.param("6759", 16, id="Maestro 16"),
        pytest.param("6304", 19, id="Maestro 19"),
        pytest.param("2200", 16, id="Mir"),
        pytest.param("9792", 16, id="Troy"),
        pytest.param("8600", 16, id="Uzcard"),
        pytest.param("1", 15, id="UATP"),
        pytest.param("1946", 16, id="GPN"),
    ],
)
def test_cards_of_every_scheme_and_length_are_found(prefix, length):
    """R2"""
    rng = random.Random(prefix + str(length))
    for _ in range(20):
        card = with_check_digit(prefix + "".join(rng.choices("0123456789", k=length - len(prefix) - 1)))
        assert found(f"paid with {card} today", "CARD") == [card]
        assert found(str(int(card)), "CARD") == [card]


@pytest.mark.parametrize(
    "written",
    [
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4111.1111.1111.1111",
        "4111/1111/1111/1111",
        "4111_1111_1111_1111",
        "4111+1111+1111+1111",
        "4111 - 1111 - 1111 - 1111",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "41 11 11 11 11 11 11 11",
        "3782 822463 10005",
        "4111 11111111 1111",
        "411111 1111111111",
    ],
)
def test_a_card_is_found_however_its_digits_are_grouped(written):
    """R2"""
    assert found(f"It is {written}, thanks", "CARD") == [written]


@pytest.mark.parametrize(
    "written", ["411 11111 1111 1111", "4111\n1111\n1111\n1111", "4111\t1111  1111 1111"]
)
def test_odd_groups_are_a_card_where_a_word_says_so(written):
    """R2"""
    assert found(f"my card: {written}", "CARD") == [written]
    assert found(f"rows: {written}", "CARD") == []


@pytest.mark.parametrize(
    "text",
    [
        "2026 4111 1111 1111 1111",
        "4111 1111 1111 1112 4111 1111 1111 1111",
        "12 34 4111 1111 1111 1111",
        "4111 1111 1111 1111 2026",
        "1234567890123 4111 1111 1111 1111",
        "2026-11-30 4111 1111 1111 1111 10:00",
        "5 4111 1111 1111 1111 5",
    ],
)
def test_a_candidate_that_fails_its_check_consumes_nothing(text):
    """R2"""
    assert found(text, "CARD") == ["4111 1111 1111 1111"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("4111111111111112", id="wrong check digit"),
        pytest.param("1764478800000", id="milliseconds"),
        pytest.param("1764478800000000", id="microseconds"),
        pytest.param("1764478800000000000", id="nanoseconds"),
        pytest.param(with_check_digit("176447880000"), id="milliseconds that pass Luhn"),
        pytest.param(with_check_digit("176447880000000"), id="microseconds that pass Luhn"),
        pytest.param("0000000000000000", id="zeros"),
        pytest.param("0.4111111111111111", id="a fraction"),
        pytest.param("1.411111111111111", id="a number with a fraction"),
        pytest.param("41111111.11111111", id="a large number with a fraction"),
        pytest.param("a4111111111111111bcdef", id="in a digest"),
        pytest.param("182f7923-4111-1111-1111-111111111111", id="in a UUID"),
        pytest.param("2024-05-15 15:00:00 2024-05-16", id="dates"),
        pytest.param("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]", id="a list"),
        pytest.param("5659 8768 2798 3969 1", id="three groups among others"),
    ],
)
def test_numbers_that_are_no_cards_are_left(text):
    """R2"""
    assert found(text, "CARD") == []


@given(st.integers(1_600_000_000_000, 1_999_999_999_999), st.sampled_from([1, 1000, 1_000_000]))
def test_no_time_since_1970_is_a_card(milliseconds, factor):
    """R2"""
    assert not is_card(str(milliseconds * factor).encode())


@given(st.text("0123456789 -", min_size=12, max_size=60))
def test_whatever_is_marked_as_a_card_passes_its_check(text):
    """R2"""
    for span in cards(text.encode()):
        digits = "".join(c for c in text[span.start : span.end] if c.isdigit())
        assert digits == with_check_digit(digits[:-1])


# -------------------------------------------------------------------------------------------------- IBANs


@pytest.mark.parametrize(
    "iban",
    [
        "DE89370400440532013000",
        "DE89 3704 0044 0532 0130 00",
        "de89 3704 0044 0532 0130 00",
        "DE89-3704-0044-0532-0130-00",
        "GB29NWBK60161331926819",
        "FR14 2004 1010 0505 0001 3M02 606",
        "MT84MALT011000012345MTLCAST001S",
        "NO9386011117947",
        "SA0380000000608010167519",
        "BR1800360305000010009795493C1",
    ],
)
def test_account_numbers_are_found_in_every_writing(iban):
    """R2"""
    assert found(f"Please pay to {iban}, soon.", "IBAN") == [iban]


def test_an_account_number_after_one_that_fails_is_found():
    """R2"""
    text = "DE12 DE89 3704 0044 0532 0130 00 and DE88370400440532013000"
    assert found(text, "IBAN") == ["DE89 3704 0044 0532 0130 00"]


@pytest.mark.parametrize(
    "text",
    ["DE88370400440532013000", "DE8937040044053201300", "DE893704004405320130001", "XX89370400440532013000"],
)
def test_a_wrong_remainder_length_or_country_is_no_account(text):
    """R2"""
    assert found(text, "IBAN") == []


# ----------------------------------------------------------------------------------------------- e-mail


@pytest.mark.parametrize(
    "email",
    [
        "alice@example.com",
        "a@b.co",
        "bob.o'brien+tag@mail.example.co.uk",
        "UPPER_case-1@EXAMPLE.ORG",
        "müller@bücher.de",
        "carol@例子.公司",
        "dave@xn--bcher-kva.example",
        "иван@почта.рф",
        '"john doe"@example.com',
        "root@[192.168.0.1]",
        "alice=40example.com",
        "alice [at] example [dot] com",
        "alice (at) example.com",
        "alice@example[.]com",
        "alice at mail dot example dot com",
        "bounce+alice=example.org@lists.example.com",
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "<{}>", "to {}, please.", "('{}')", "mailto:{}?subject=x", 'k="{}"']
)
def test_e_mail_addresses_are_found(email, around):
    """R2"""
    assert email in found(around.format(email), "EMAIL")


@pytest.mark.parametrize(
    "text",
    [
        "user@host",
        "@decorator.name",
        "a @ b",
        "look at the dot product",
        "icon@2x.png",
        "git@github.com:org/repo",
        "lodash@4.17.21",
        "at example.com",
        "a@a@a@a",
    ],
)
def test_what_only_has_the_sign_is_no_e_mail_address(text):
    """R2"""
    assert found(text, "EMAIL") == []


def test_a_sentence_without_spaces_is_no_part_of_an_address():
    """R2"""
    assert found("我的邮箱是alice@example.com谢谢", "EMAIL") == ["alice@example.com"]


# ---------------------------------------------------------------------------------------- IP addresses


@pytest.mark.parametrize(
    "address",
    [
        "192.168.0.1",
        "255.255.255.255",
        "2001:db8::1",
        "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        "fe80::1ff:fe23:4567:890a",
        "::1",
        "::ffff:192.0.2.128",
        "64:ff9b::192.0.2.33",
        "2001:db8:1:2:3:4:5:6",
    ],
)
@pytest.mark.parametrize("around", ["{}", "from {} port 22", "[{}]:443", 'ip="{}"', "{}/24", "at {}."])
def test_ip_addresses_are_found(address, around):
    """R2"""
    assert address in found(around.format(address), "IP")


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4",
        "v1.2.3.4",
        "1.2.3.4.5",
        "300.1.1.1",
        "Chrome/120.0.0.0",
        "Mozilla/5.0 (X11) AppleWebKit/537.36 Chrome/121.4.61.85 Safari/537.36",
        "CriOS/119.1.60.109",
        "Edg/118.3.208.46",
        "12:30:45",
        "std::vec",
        "abc::def",
        "x[1::2]",
        "::",
        "00:1b:44:11:3a:b7",
        "section 4.3.2.1",
    ],
)
def test_versions_times_and_names_are_no_ip_addresses(text):
    """R2"""
    assert found(text, "IP") == []


def test_an_address_after_a_host_name_is_no_version():
    """R2"""
    assert found("db/10.2.3.4:5432", "IP") == ["10.2.3.4"]


# ----------------------------------------------------------------------------------------------- phones


@pytest.mark.parametrize(
    "phone",
    [
        "+49 30 901820",
        "+49 (30) 901820",
        "+1 (415) 555-2671",
        "+14155552671",
        "+44 20 7946 0958",
        "0044 20 7946 0958",
        "+33 1 42 68 53 00",
        "+81-3-1234-5678",
        "(415) 555-2671",
        "415-555-2671",
        "415.555.2671",
    ],
)
@pytest.mark.parametrize("around", ["{}", "ring {}, please", '"n": "{}"', "number:{}"])
def test_phone_numbers_with_their_country_are_found(phone, around):
    """R2"""
    assert found(around.format(phone), "PHONE") == [phone]


def test_a_local_number_is_one_after_a_word_for_phone():
    """R2"""
    assert found("Telefon: 030 901820", "PHONE") == ["030 901820"]
    assert found("call me back on 0171 1234567 tonight", "PHONE") == ["0171 1234567"]
    assert found("order 030 901820", "PHONE") == []


@pytest.mark.parametrize(
    "text",
    [
        "+999 123456789",
        "1 + 2345678",
        "152 + 687760854 = 687761006",
        "(a[3] + 687760854) * 2",
        "SKU 517-451-5246",
        "item no. 415-555-2671",
        '"part_number": "415-555-2671"',
        "model: 212-555-0187",
        "123-456-7890",
        "8416 415 555 2671",
        "phone launched 2024-05-15",
        "+49",
    ],
)
def test_digits_that_no_country_numbers_are_no_phone(text):
    """R2"""
    assert found(text, "PHONE") == []


def test_a_plus_that_adds_nothing_and_a_number_of_no_goods_are_a_phones():
    """R2"""
    assert found("Tel. + 49 30 901820", "PHONE") == ["+ 49 30 901820"]
    assert found("ask: 415-555-2671", "PHONE") == ["415-555-2671"]


def test_beyond_the_lookups_candidates_are_marked_unchecked():
    """R4"""
    numbers = [f"+999 1234 {number:05}" for number in range(LOOKUPS_MAX + 5)]
    assert found("; ".join(numbers), "PHONE") == numbers[LOOKUPS_MAX:]


# ----------------------------------------------------------------------------------------- national ids


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("SSN", "123-45-6789"),
        ("social security number", "123-45-6789"),
        ("National Insurance", "AB 12 34 56 C"),
        ("NHS number", "943 476 5919"),
        ("Steuer-ID", "36 574 261 809"),
        ("numéro de sécurité sociale", "2 95 10 99 126 111 93"),
        ("DNI", "54362315K"),
        ("NIE", "X-2482300W"),
        ("codice fiscale", "RCCMNL83S18D969H"),
        ("BSN", "1112.22.333"),
        ("CPF", "390.533.447-05"),
        ("PESEL", "44051401359"),
        ("personnummer", "880320-0016"),
        ("CPR", "211062-5629"),
        ("HETU", "131052-308T"),
        ("AHV", "756.9217.0769.85"),
        ("social insurance number", "123-456-782"),
        ("TFN", "123 456 782"),
        ("Aadhaar", "2341 2341 2346"),
        ("PAN", "ACUPA7085R"),
        ("CURP", "BOXW310820HNERXN09"),
        ("passport number", "C01X00T47"),
        ("Passport No.", "123456789"),
        ("driver's license", "D1234567"),
        ("national ID", "12345678"),
        ("ЕГН", "7523169263"),
        ("егн", "7523169263"),
        ("Единен граждански номер", "7523169263"),
        ("ИНН", "500100732259"),
        ("СНИЛС", "112-233-445 95"),
        ("Паспорт", "45 08 123456"),
        ("РНОКПП", "1759013776"),
        ("ΑΜΚΑ", "01013099997"),
        ("ΑΦΜ", "094259216"),
        ("EMŠO", "0101006500006"),
        ("JMBG", "0101006500006"),
        ("ЈМБГ", "0101006500006"),
        ("adószám", "12892312"),
        ("Adóazonosító jel", "8071592153"),
        ("TAJ szám", "123 456 788"),
        ("תעודת זהות", "039337423"),
        ("マイナンバー", "6214 9832 0257"),
        ("cartão de cidadão", "00000000 0 ZZ4"),
        ("CNIC", "42201-0397640-8"),
        ("dowód osobisty", "ABC 123456"),
    ],
)
@pytest.mark.parametrize("around", ["my {} is {} ok", "{}: {}", '"{}": "{}"'])
def test_national_ids_are_found_by_a_word_for_them(word, number, around):
    """R2"""
    assert number in found(around.format(word, number), "NATIONAL_ID")
    assert found(f"the value {number} here", "NATIONAL_ID") == []


def test_a_national_id_before_its_word_is_found():
    """R2"""
    assert found("123-45-6789 is my SSN", "NATIONAL_ID") == ["123-45-6789"]


def test_an_id_where_words_have_no_spaces_is_found():
    """R2"""
    assert found("身份证号：11010519491231002X", "NATIONAL_ID") == ["11010519491231002X"]


@pytest.mark.parametrize(
    "text",
    [
        "CPF 390.533.447-06",
        "PESEL 44051401358",
        "BSN 111222334",
        "passport expires in 2031",
        "nhs 1234567890",
        "ЕГН 7523169264",
        "ИНН 500100732258",
        "ΑΜΚΑ 01013099996",
        "EMŠO 0101006500007",
        "adószám 12892313",
        "предегн 7523169263",
    ],
)
def test_an_id_that_fails_its_check_is_none(text):
    """R2"""
    assert found(text, "NATIONAL_ID") == []


def test_a_failed_id_does_not_hide_the_next_one():
    """R2"""
    assert found("PESEL 44051401358 44051401359", "NATIONAL_ID") == ["44051401359"]


def test_every_check_that_is_named_exists():
    """R2"""
    for entry in IDS:
        if entry.check:
            assert get_cc_module(*entry.check).is_valid("1") is False


# --------------------------------------------------------------------------------------------- by context


@pytest.mark.parametrize(
    "written",
    [
        "1992-09-13",
        "13.09.1992",
        "9/13/1992",
        "13 September 1992",
        "September 13, 1992",
        "13th of September 1992",
    ],
)
@pytest.mark.parametrize(
    "around", ["born on {}.", 'dob": "{}"', "date of birth: {}", "dateOfBirth={}", "geboren am {}", "dob: {}"]
)
def test_a_date_of_birth_is_told_by_its_words(written, around):
    """R2"""
    assert found(around.format(written), "BIRTH_DATE") == [written]


@pytest.mark.parametrize(
    "said",
    [
        "geboortedatum: {}",
        "geboren op {}",
        "data urodzenia: {}",
        "urodzona {}",
        "ur. {}",
        "född {}",
        "Födelsedatum: {}",
        "født den {}",
        "fødselsdag {}",
        "syntymäaika {}",
        "datum narození: {}",
        "narodený {}",
        "datum rođenja {}",
        "rojena {}",
        "született {}",
        "születési idő: {}",
        "data nașterii: {}",
        "născută pe {}",
        "doğum tarihi: {}",
        "sünniaeg {}",
        "dzimšanas datums {}",
        "gimimo data {}",
        "tanggal lahir: {}",
        "ngày sinh: {}",
        "nascida em {}",
        "nació el {}",
        "Дата рождения: {}",
        "ДАТА РОЖДЕНИЯ {}",
        "родилась {}",
        "дата народження {}",
        "роден на {}",
        "Ημερομηνία γέννησης: {}",
        "ΗΜΕΡΟΜΗΝΙΑ ΓΕΝΝΗΣΗΣ {}",
        "תאריך לידה: {}",
        "تاريخ الميلاد: {}",
        "जन्म तिथि {}",
    ],
)
@pytest.mark.parametrize("written", ["28.12.1945", "1945-12-28", "28/12/1945"])
def test_a_date_of_birth_is_told_in_many_languages(said, written):
    """R2"""
    assert found(said.format(written), "BIRTH_DATE") == [written]


def test_a_month_in_another_script_and_a_year_first_are_a_date():
    """R2"""
    assert found("родился 12 мая 1990 года", "BIRTH_DATE") == ["12 мая 1990"]
    assert found("született: 1990. május 17-én", "BIRTH_DATE") == ["1990. május 17"]
    assert found("встреча 12.05.1990", "BIRTH_DATE") == []


def test_other_dates_are_left_and_a_word_may_follow():
    """R2"""
    assert found("departs on 1992-09-13", "BIRTH_DATE") == []
    assert found("1992-09-13 is my birthday", "BIRTH_DATE") == ["1992-09-13"]
    assert found("出生日期：1990年1月2日", "BIRTH_DATE") == ["1990年1月2"]


@pytest.mark.parametrize(
    "street",
    [
        "833 Highland Drive, Suite 740",
        "10 Downing Street",
        "221B Baker Street",
        "1600 Pennsylvania Ave.",
        "4 North Elm St",
        "Hauptstraße 12",
        "Berliner Straße 5 b",
        "Prinsengracht 263",
        "12 rue de la Paix",
        "Calle Mayor 5",
        "Via Roma 12",
        "P.O. Box 1234",
        "Hummelstr. 3/2",
        "Gürtelgasse 12/14/3",
        "Mühlenweg 7-9",
        "ulica Polna 5/12",
        "ul. Jana Pawła II 7",
        "Industrivägen 7",
        "Storgatan 14b",
        "Travessa do Carmo 8",
        "Plaza Mayor 3",
    ],
)
def test_streets_are_told_by_their_names(street):
    """R2"""
    assert found(f"I moved from {street}; it was nice", "STREET") == [street]


def test_a_field_for_a_street_holds_one_whatever_it_says():
    """R2"""
    assert found('"address1": "Rose Cottage"', "STREET") == ["Rose Cottage"]
    assert found("street: rose cottage", "STREET") == ["rose cottage"]
    assert found("I live at 12 main street", "STREET") == ["12 main street"]


@pytest.mark.parametrize(
    "text",
    [
        "take 5 minutes to drive",
        "Spring 5 is out",
        "line 12: error",
        "2 ways",
        "address: unknown",
        "iPad 12",
        "Notepad 5",
    ],
)
def test_other_numbers_with_words_are_no_streets(text):
    """R2"""
    assert found(text, "STREET") == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("zip: 80211", "80211"),
        ('"zip": "80211-1234"', "80211-1234"),
        ("postcode SW1A 1AA", "SW1A 1AA"),
        ("PLZ 10115", "10115"),
        ("Denver, CO 80211", "80211"),
        ("833 Highland Drive, Denver 80211", "80211"),
        ("Hauptstraße 12, 80331 München", "80331"),
        ("postal code: K1A 0B1", "K1A 0B1"),
        ("zip 80211", "80211"),
        ("postal code 33452-025", "33452-025"),
        ("postal code 41655088", "41655088"),
        ("CEP 01310-100", "01310-100"),
        ("CAP 00185", "00185"),
        ("kod pocztowy 00-950", "00-950"),
        ("postnummer 114 55", "114 55"),
        ("PSČ 110 00", "110 00"),
        ("código postal: 1000-205", "1000-205"),
        ("Eircode D02 AF30", "D02 AF30"),
        ("почтовый индекс: 101000", "101000"),
        ("郵便番号 100-0001", "100-0001"),
        ("Τ.Κ. 105 57", "105 57"),
    ],
)
def test_postcodes_are_told_by_a_word_a_state_or_a_street(text, code):
    """R2"""
    assert found(text, "ZIP") == [code]
    assert found(f"{code} items", "ZIP") == []


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("my name is Aarav Garcia and", "NAME", "Aarav Garcia"),
        ("Dr. Mei Chen called", "NAME", "Mei Chen"),
        ('"first_name": "mei"', "NAME", "mei"),
        ("last name: garcia", "NAME", "garcia"),
        ("name: Mei Chen", "NAME", "Mei Chen"),
        ("my user ID is mei_chen_42.", "USER_ID", "mei_chen_42"),
        ('"user_id": "mei_chen_42"', "USER_ID", "mei_chen_42"),
        ("reservation ID M05KNL", "REFERENCE", "M05KNL"),
        ('"reservation_id": "UHDAHF"', "REFERENCE", "UHDAHF"),
        ("reservations: M05KNL", "REFERENCE", "M05KNL"),
        ("card ending in 7447", "REFERENCE", "7447"),
        ("last four digits are 7447", "REFERENCE", "7447"),
        ("**** **** **** 7447", "REFERENCE", "7447"),
    ],
)
def test_names_and_ids_are_told_by_the_words_before_them(text, kind, value):
    """R2"""
    assert value in found(text, kind)


@pytest.mark.parametrize(
    "text",
    [
        "name: get_user_details",
        "user id and the reservation",
        "year ending 2024",
        "**Date:** 2024",
        "the order is late",
    ],
)
def test_words_after_such_words_are_left(text):
    """R2"""
    assert found(text) == []


def test_a_salary_cap_is_no_italian_postcode():
    """R2"""
    assert found("a cap 50000 of spending", "ZIP") == []
