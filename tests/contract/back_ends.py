"""The back ends of every port: a new one adds a line here, and passes the same suites."""

from vault.storage.files import FileBlobs, FileLedger
from vault.storage.keystore import SqlKeyStore
from vault.storage.migrate import migrate
from vault.storage.records import SqlRecords
from vault.storage.sqlite import Database


def sqlite_file(place, kind, synchronous):
    database = Database(place / f"{kind}.db", place / "lock", synchronous=synchronous, lock_seconds=10)
    migrate(database, kind)
    return database


#: Each opens (again) what stands at a place.
RECORDS = {
    "sqlite-full": lambda place: SqlRecords(sqlite_file(place, "data", "FULL")),
    "sqlite-normal": lambda place: SqlRecords(sqlite_file(place, "data", "NORMAL")),
}
KEYS = {"sqlite": lambda place: SqlKeyStore(sqlite_file(place, "keys", "FULL"))}
BLOBS = {"files": lambda place: FileBlobs(place / "blobs")}
LEDGERS = {
    "files": lambda place: FileLedger(place / "ledger"),
    "files-that-keep-the-newest": lambda place: FileLedger(place / "ledger", keep=100),
}
