// An SQLite database: tables that a question can be put to in SQL.
#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "trace/export.h"
#include "trace/export_text.h"

namespace forebay::trace {

namespace {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

constexpr const char* kSchema = R"(
CREATE TABLE tracks (id INTEGER PRIMARY KEY, parent INTEGER, kind TEXT, name TEXT, number INTEGER,
                     rank INTEGER, path TEXT);
CREATE TABLE events (id INTEGER PRIMARY KEY, track INTEGER, start_ns INTEGER, duration_ns INTEGER,
                     kind INTEGER, category TEXT, name TEXT);
CREATE TABLE arguments (event INTEGER, key TEXT, value);
CREATE TABLE facts (file TEXT, key TEXT, value TEXT);
CREATE VIEW event_arguments AS
  SELECT e.*, a.key, a.value FROM events e JOIN arguments a ON a.event = e.id;
)";

constexpr const char* kIndexes = R"(
CREATE INDEX events_by_track ON events (track, start_ns);
CREATE INDEX arguments_by_event ON arguments (event);
)";

class Database {
 public:
  Status open(const std::string& path) {
    sqlite3* raw = nullptr;
    const int code =
        sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    database_.reset(raw);
    path_ = path;
    return code == SQLITE_OK ? Status() : error();
  }

  Status run(const char* text) {
    return sqlite3_exec(database_.get(), text, nullptr, nullptr, nullptr) == SQLITE_OK ? Status()
                                                                                       : error();
  }

  Result<Statement> prepare(const char* text) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(database_.get(), text, -1, &raw, nullptr) != SQLITE_OK) return error();
    return Statement(raw);
  }

  // One row of an INSERT whose values were bound.
  Status insert(const Statement& statement) {
    const int code = sqlite3_step(statement.get());
    sqlite3_reset(statement.get());
    return code == SQLITE_DONE ? Status() : error();
  }

 private:
  Error error() const {
    const bool is_full = sqlite3_errcode(database_.get()) == SQLITE_FULL;
    return fail(is_full ? ErrorCode::kResourceExhausted : ErrorCode::kIo, "{}: {}", path_,
                sqlite3_errmsg(database_.get()));
  }

  std::unique_ptr<sqlite3, CloseDatabase> database_;
  std::string path_;
};

void put(const Statement& statement, int at, int64_t value) {
  sqlite3_bind_int64(statement.get(), at, value);
}

void put(const Statement& statement, int at, std::string_view raw) {
  const std::string text = utf8_text(raw);
  sqlite3_bind_text(statement.get(), at, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
}

void put_value(const Statement& statement, int at, const Recording& recording, const Key& key,
               int64_t value) {
  if (key.type == ArgumentType::kReal) {
    sqlite3_bind_double(statement.get(), at, real_value(value));
  } else if (key.type == ArgumentType::kInteger) {
    put(statement, at, value);
  } else {
    const std::string text = key.type == ArgumentType::kText
                                 ? recording.dictionary().texts[static_cast<TextId>(value)]
                                 : stack_text(recording, static_cast<StackId>(value));
    put(statement, at, text);
  }
}

Status write_tracks(const Recording& recording, Database& database) {
  const Statement add = FB_TRY(database.prepare("INSERT INTO tracks VALUES (?,?,?,?,?,?,?)"));
  const Dictionary& dictionary = recording.dictionary();
  for (TrackId id = 0; id < dictionary.tracks.size(); ++id) {
    const Track& track = dictionary.tracks[id];
    const std::string path = recording.track_path(id);
    put(add, 1, int64_t{id});
    if (track.parent == kNoId) {
      sqlite3_bind_null(add.get(), 2);
    } else {
      put(add, 2, int64_t{track.parent});
    }
    put(add, 3, track_kind_name(track.kind));
    put(add, 4, dictionary.text(track));
    put(add, 5, track.number);
    put(add, 6, int64_t{track.rank});
    put(add, 7, path);
    FB_TRY(database.insert(add));
  }
  return {};
}

Status write_facts(const Recording& recording, Database& database) {
  const Statement add = FB_TRY(database.prepare("INSERT INTO facts VALUES (?,?,?)"));
  for (const RecordingFile& file : recording.files()) {
    for (const auto& [key, value] : file.facts) {
      put(add, 1, file.path);
      put(add, 2, key);
      put(add, 3, value);
      FB_TRY(database.insert(add));
    }
  }
  return {};
}

Status write_arguments(const Recording& recording, Database& database, TrackId track) {
  const Statement add = FB_TRY(database.prepare("INSERT INTO arguments VALUES (?,?,?)"));
  const Dictionary& dictionary = recording.dictionary();
  const size_t first = recording.rows(track).first;
  for (KeyId key = 0; key < dictionary.keys.size(); ++key) {
    const std::span<const int64_t> values = recording.column(key, track);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == kNoValue) continue;
      put(add, 1, static_cast<int64_t>(first + i));
      put(add, 2, dictionary.texts[dictionary.keys[key].text]);
      put_value(add, 3, recording, dictionary.keys[key], values[i]);
      FB_TRY(database.insert(add));
    }
  }
  return {};
}

Status write_events(const Recording& recording, Database& database) {
  const Statement add = FB_TRY(database.prepare("INSERT INTO events VALUES (?,?,?,?,?,?,?)"));
  for (TrackId track = 0; track < recording.dictionary().tracks.size(); ++track) {
    const Recording::Rows rows = recording.rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      const Name& name = recording.name(row);
      put(add, 1, static_cast<int64_t>(row));
      put(add, 2, int64_t{track});
      put(add, 3, recording.start(row));
      if (recording.is_unfinished(row)) {
        sqlite3_bind_null(add.get(), 4);
      } else {
        put(add, 4, recording.duration(row));
      }
      put(add, 5, static_cast<int64_t>(name.kind));
      put(add, 6, category_name(name.category));
      put(add, 7, recording.dictionary().text(name));
      FB_TRY(database.insert(add));
    }
    FB_TRY(write_arguments(recording, database, track));
  }
  return {};
}

Status fill(const Recording& recording, const std::string& path) {
  Database database;
  FB_TRY(database.open(path));
  // Nothing is lost that cannot be exported again.
  FB_TRY(database.run("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; BEGIN"));
  FB_TRY(database.run(kSchema));
  FB_TRY(write_tracks(recording, database));
  FB_TRY(write_facts(recording, database));
  FB_TRY(write_events(recording, database));
  FB_TRY(database.run(kIndexes));
  return database.run("COMMIT");
}

// The database appears whole, in the place of what was there; what fails leaves nothing.
Status write_sqlite(const Recording& recording, const std::string& path) {
  const std::string partial = path + ".partial";
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    return fail(ErrorCode::kInvalidArgument, "{}: a database needs a regular file", path);
  std::filesystem::remove(partial, error);  // of an export that was killed
  Status filled = fill(recording, partial);
  if (filled.ok()) std::filesystem::rename(partial, path, error);
  if (filled.ok() && !error) return {};
  const std::string message = error.message();
  std::filesystem::remove(partial, error);
  if (!filled.ok()) return filled;
  return fail(ErrorCode::kIo, "{}: {}", path, message);
}

}  // namespace

const Exporter kSqliteExporter{
    .name = "sqlite",
    .suffix = ".sqlite",
    .summary = "an SQLite database: tracks, events, arguments, facts",
    .write = nullptr,
    .write_file = write_sqlite,
};

}  // namespace forebay::trace
