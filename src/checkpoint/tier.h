// A place that holds checkpoints, each in a folder of its own.
//
//   step-000000001000-000042-5f3a9c01/       a checkpoint: the 42nd save here was of step 1000
//     rank-00000-00.safetensors              shards
//     manifest.json                          what makes it a checkpoint
//   saving-000000001100-000043-b2014d77/     being written, or left by a process that died
//   removing-000000000900-000041-07c1e5aa/   being removed
//   latest                                   name of the newest, for people and other programs
//
// Where folders can be renamed, a checkpoint is written as saving-... and gets its name in one
// step. Object stores have no such step: its files are written under their final names, and the
// manifest, which comes last, makes them a checkpoint. What else lies there is left alone.
//
// Safe from any thread, but two calls about one folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::checkpoint {

// Which save: its step, and how many came before it at this place. The newest has the highest
// sequence: after a return to step 900 a step 1000 is saved again, and that one counts.
struct SaveName {
  uint64_t step = 0;
  uint64_t sequence = 0;
  uint32_t id = 0;  // tells saves apart that two jobs make in one place at the same time
  friend bool operator==(const SaveName&, const SaveName&) = default;
};
bool is_older(const SaveName& a, const SaveName& b);

// "step-000000001000-000042-5f3a9c01"
std::string folder_name(const SaveName& save);
std::optional<SaveName> save_from_folder(std::string_view name);

struct TierOptions {
  std::string place;              // a folder, or s3://BUCKET/PREFIX
  std::string storage = "local";  // driver and its options
};

class Tier {
 public:
  static Result<std::unique_ptr<Tier>> open(const TierOptions& options);
  // On a store that somebody else made; for tests.
  static std::unique_ptr<Tier> on(std::unique_ptr<storage::Store> store, std::string place);

  const std::string& place() const { return place_; }
  storage::Store& store() const { return *store_; }

  struct Contents {
    std::vector<SaveName> saves;  // oldest first; damaged ones, and those without a manifest, too
    uint64_t sequence_next = 1;   // above all that are there in any state
  };
  // A folder that does not exist yet holds nothing; a bucket that does not is kNotFound.
  Result<Contents> list() const;

  // What saves, copies and removals that did not end have left, or have not ended yet.
  struct Leftover {
    std::string folder{};            // or a file that was not published, or was to be
    std::optional<SaveName> name{};  // of a folder
    uint64_t files = 0, bytes = 0;   // unpublished ones too
    std::string why{};               // "a save that did not end"
    int64_t touched_ns = 0;          // when something in it was last written
    // Of those who write in it: one lives; all are gone; nobody can tell.
    storage::Unpublished::Writer writer = storage::Unpublished::Writer::kUnknown;
    std::vector<storage::Unpublished> unpublished{};
  };
  // `notes`: what could not be looked at.
  Result<std::vector<Leftover>> list_leftovers(std::vector<std::string>& notes) const;
  // Whether list_leftovers() learns of writers that live.
  bool has_locks() const;

  // kCorruption when it is damaged, kNotFound when there is none.
  Result<Manifest> read_manifest(const SaveName& save) const;

  // As far as a look without reading its shards tells: its manifest, which is whole, and files as
  // large as that says. kCorruption or kNotFound when not; other errors say nothing about it.
  Result<Manifest> check(const SaveName& save) const;

  // Keeps remove() of this and of other processes from a checkpoint while the result lives; null
  // where the store has no locks. kNotFound when it is gone.
  Result<std::shared_ptr<const void>> hold(const SaveName& save) const;

  // Where the files of a save are written until publish().
  std::string working_folder(const SaveName& save) const;
  // Says to prunes of all processes, where the store has locks, that this folder is being written,
  // while the result lives. Whoever does not publish() lets go of it before another one does.
  Result<std::shared_ptr<const void>> begin(const SaveName& save);
  // All shards are there and synced: writes the manifest and makes it a checkpoint. Lets go of
  // `writing` in time. Gives what hold() does. kIo when a shard is missing.
  Result<std::shared_ptr<const void>> publish(const SaveName& save, const Manifest& manifest,
                                              std::shared_ptr<const void> writing = nullptr);
  // Removes what was written of a save that will not be published.
  Status discard(const SaveName& save);
  // Writes the file `latest`.
  Status point_to(const SaveName& save);

  // Removes a checkpoint, so that it stops being one before anything of it is gone.
  // kResourceExhausted when somebody holds it; then nothing happens.
  Status remove(const SaveName& save);
  // Removes what list_leftovers() has found. kResourceExhausted while somebody writes it; kIo when
  // it holds what is no file, which stays.
  Status remove_leftover(const Leftover& leftover);

  // Bytes that may still be written.
  Result<uint64_t> free_bytes() const;

 private:
  Tier(std::unique_ptr<storage::Store> store, std::string place);
  Status remove_files(std::string_view folder);
  storage::Unpublished::Writer writer_of(const std::string& manifest) const;
  Status check_complete(std::string_view folder, const Manifest& manifest) const;

  std::unique_ptr<storage::Store> store_;
  const std::string place_;
  const bool can_rename_;
};

}  // namespace forebay::checkpoint
