"""Words about words: which field holds what, and which names are also ordinary words."""

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _kinds(fields: dict[str, str]) -> dict[str, str]:
    return {field: kind for kind, names in fields.items() for field in names.split()}


#: What a field holds, by its name in lower case with underscores between its words.
KIND_OF_FIELD: Final = _kinds(
    {
        "NAME": """
            first_name last_name middle_name given_name family_name surname full_name maiden_name
            nickname firstname lastname fullname legal_name real_name display_name passenger_name
            customer_name contact_name guest_name patient_name employee_name recipient_name
            cardholder_name cardholder account_holder beneficiary vorname nachname
        """,
        "STREET": """
            street street_address address address1 address2 address_1 address_2 address_line1
            address_line2 address_line_1 address_line_2 addressline1 addressline2 line1 line2
            shipping_address billing_address home_address mailing_address postal_address strasse
        """,
        "ZIP": """
            zip zip_code zipcode postal_code postalcode postcode post_code plz
        """,
        "BIRTH_DATE": """
            dob date_of_birth dateofbirth birth_date birthdate birthday birth_day born
        """,
        "EMAIL": """
            email e_mail email_address mail contact_email
        """,
        "PHONE": """
            phone phone_number phonenumber mobile mobile_number cell cell_phone telephone tel fax
            msisdn contact_number
        """,
        "USER_ID": """
            user_id userid username user_name login customer_id member_id patient_id employee_id
            client_number screen_name handle account_name frequent_flyer_number loyalty_id
            loyalty_number
        """,
        "REFERENCE": """
            reservation_id reservation reservations reservation_ids booking_id booking bookings
            booking_reference confirmation_number confirmation_code record_locator pnr order_id
            order_number orders payment_id payment_method_id payment_methods ticket_number
            invoice_id invoice_number transaction_id account_id account_number case_id claim_id
            policy_number gift_card_id certificate_id tracking_number tracking_id
        """,
        "NATIONAL_ID": """
            ssn social_security_number national_id passport passport_number tax_id nino
            drivers_license driver_license driving_licence license_number licence_number id_number
            nhs_number personnummer cpf pesel aadhaar
        """,
        "CARD": """
            card_number credit_card_number cardnumber cc_number
        """,
        "IBAN": """
            iban bank_account bank_account_number
        """,
        "IP": """
            ip ip_address ipaddress client_ip remote_addr
        """,
        "SECRET": """
            password passwd pwd passphrase passcode secret client_secret api_key apikey
            access_token refresh_token auth_token session_token private_key secret_key
            security_answer token cvv cvc pin otp
        """,
    }
)
#: Fields whose objects and lists hold ids, also as keys: {"payment_methods": {"gift_card_42": {...}}}.
HOLDS_IDS: Final = _words(
    """
    bookings orders payment_history payment_methods reservations
    """
)
#: Fields of the last digits of a card.
TAIL_FIELDS: Final = _words(
    """
    card_last4 last4 last_4 last_four last_four_digits
    """
)
#: Fields that say that the object with them is a person, so that its "name" is a person's.
OF_A_PERSON: Final = _words(
    """
    address age birth_date birthday customer_id date_of_birth dob email email_address first_name gender
    last_name nationality passport passport_number phone phone_number sex ssn street_address user_id
    username
    """
)
#: Fields that hold persons.
PERSONS: Final = _words(
    """
    author beneficiary cardholder client clients contact contacts customer customers employee guest guests
    member members owner passenger passengers patient patients people person persons recipient
    saved_passengers sender traveler travelers traveller travellers user users
    """
)
#: Values that name nobody.
NO_VALUE: Final = _words(
    """
    address admin anonymous customer default email false guest hidden home masked me n/a na name nil no
    none null other passenger phone primary redacted self string test text true undefined unknown user
    work yes you
    """
)
#: Names that are words which sentences are made of, months and days: they mark nothing unless somebody is
#: called by them.
EVERYDAY: Final = _words(
    """
    a abide able abu after al all am an and any apr april are as at aug august autumn back be bin but by
    can cold could da das day de dec december del della den der di dick do dos du each east el else
    english er etc ever feb february for fri friday from give go had has have he her high him his how i
    ibn if in is it jan january jul july jun june just la large last le let like list little long low ma
    made main major make many mar march may mon monday most mr mrs ms much my nation new next no nor north
    not nov november now oct october of off oh old on one or other our out own pa per please present quick
    read said same sat saturday see self sep sept september she short should small so some south spring st
    still su summer sun sunday than that the their them then there these they thing this those thu
    thursday to too top tue tuesday two under until up upon us use va van very von was we wed wednesday
    well were west what when where which while white who whom whose why will winter with within without
    would yes yet you your
    """
)
#: Names that are other English words: they mark where they have a capital inside a sentence, or as above.
ORDINARY: Final = _words(
    """
    abbey ace acre amber angel arch art ash baker ball bank banks bar barber baron bass bay beach bean
    bear beck bee bell best bill bird bishop black blank block blue bond book booth bow box branch bridge
    bright broad brook brooks brown buck bud bull burn burns bush butcher butler cane carpenter carter
    case cash castle chain chance chase christian church clay clean clear close cloud coin con cook cooper
    copper cotton count court cox crane cross crow crystal curry cute daisy dame dean dear deep dish
    dollar don door dove draw drew drum duke dusty earl easter eh fair faith falcon fall far farmer favor
    feather field fields fine finger fish fisher flint flower flowers ford forest foster fountain fox
    frank free freeman french friend fry garden gay gene gentle gift gill glass gold good grace grand
    grant grass gray great green grey ground grove guy hall ham hammer hand happy harbor hardy hawk head
    heart hill holiday holly home honey hood hope horn house hunt hunter iron ivory ja jack jade jewel joy
    judge justice key kid kind king knight lake lamb lane law lee leg light lily lock lord love lucky luna
    man mark marks mars marsh marshal mason master mayor me mercy merry miles mill miller miss mix moon
    more morning moss nice night noble noon oak olive orange page paint park parks part pat pay peace
    pearl penny people pepper perry person piano pie pike pine pink place plain play pleasant pool poor
    pope porter post potter pound power price pride prince princess queen rain raven ray red reed rice
    rich ring rise rising river rivers road rob robin rock rocky rod rode roman root rose round royal ruby
    rush rusty sage sail sale salt sand sandy savage school sharp shell shepherd ship shore sierra silver
    singer six skinner sky smart smith snow son song spruce star stark state steel stern stone storm
    street strong sue sunny sweet swift tailor tan taylor teal temple ten tiger time town trace trade tree
    true trust turner urban vale valentine vice victor violet wade walk walker wall walls want war ward
    water waters wave way weaver weeks wells wild win wind wine wise wish wolf wonder wood woods word
    worth wright york young zion
    """
)

#: What leads to a name, folded.
CALLED: Final = re.compile(
    r"(?:\b(?:mr|mrs|ms|miss|mister|dr|prof|sir|madam|hi|hello|hey|dear|thanks|thank you|welcome|sorry|"
    r"name is|name's|i am|i'm|this is|called|named|passenger|customer)[.,:]? |\bname ?[:-] ?)\Z"
)
#: What leads to a name even in lower case, folded.
TITLED: Final = re.compile(
    r"\b(?:(?:mr|mrs|ms|miss|mister|dr|prof|herr|frau|mme|monsieur|senora?|signora?)\.? |"
    r"(?:name is|name's) |(?:first|last|family|given|full) name ?[:=-] ?)\Z"
)
