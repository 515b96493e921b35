// What a user writes for "where the data are", split into a store's root and patterns below it.
//
//   /data/train              folder /data/train                 (a name without a known extension)
//   /data/train.tar          /data        : train.tar
//   s3://b/in/{00..81}.tar   s3://b/in    : {00..81}.tar
//   /data/**/*.npz           /data        : **/*.npz
//
// Functions are pure and safe to call from any thread: whether a path exists is found out by
// Index::open, which also takes a pattern that means a folder.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"

namespace forebay::dataset {

struct SourceAddress {
  std::string root;                   // for storage::open_store: a folder, or s3://BUCKET/PREFIX
  std::vector<std::string> patterns;  // for IndexOptions::patterns; empty = all below the root
};

// kInvalidArgument for an empty text, "s3://" without a bucket and a bucket that is a pattern.
Result<SourceAddress> split_address(std::string_view text);

// The same for somebody who has found a file where the name let expect a folder. Nothing for what
// can be none: patterns, "/", a bucket.
std::optional<SourceAddress> as_file(const SourceAddress& address);

// Several addresses below one root, as one store has it; patterns[i] are those of addresses[i].
struct SharedRoot {
  std::string root;
  std::vector<std::vector<std::string>> patterns;  // an empty one = all below the root
  std::vector<std::string> folders;  // of each address, relative to the root: what its own root was
};
// kUnsupported for addresses in different buckets, or in a bucket and on a disk.
Result<SharedRoot> share_root(std::span<const SourceAddress> addresses);

}  // namespace forebay::dataset
