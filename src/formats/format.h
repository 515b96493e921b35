// Bytes <-> records: how samples lie in a file, how they are taken out and checked, how files are
// made.
//
// A Format is a constant and may be used from any thread. A Reader belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "formats/extent_list.h"
#include "storage/store.h"

namespace forebay::formats {

enum class ElementType {
  kU8,
  kU16,
  kU32,
  kU64,
  kI8,
  kI16,
  kI32,
  kI64,
  kF16,
  kF32,
  kF64,
  kBool,
  kC64,
  kC128,
  kBF16  // of ops only: no file format here has it
};
size_t element_bytes(ElementType type);
std::string_view element_name(ElementType type);  // numpy's names: "uint8"; "bfloat16"
std::optional<ElementType> element_from_name(std::string_view name);
// A number of a file: its type, and whether its bytes come in the other order.
struct NumberType {
  ElementType type = ElementType::kU8;
  bool is_big_endian = false;
};
// Either of numpy's names, "uint16", or "u2", "<u2", ">u2". Null for what is no plain number.
std::optional<NumberType> number_from_numpy(std::string_view name);

// One array as it lies in a file.
struct ArrayLayout {
  ElementType type = ElementType::kU8;
  bool is_big_endian = false;
  bool is_fortran_order = false;
  std::vector<uint64_t> shape;  // empty = scalar
};
// Product of the shape times the element size, or kCorruption when that overflows 2^62.
Result<uint64_t> array_bytes(const ArrayLayout& layout);

// What a record holds before ops decode it.
enum class Encoding { kRaw, kArray, kJpeg, kPng, kExample, kText, kJson };

// One record; `bytes` points into the input or into the reader's scratch and is valid until the
// reader's next call.
struct Record {
  Encoding encoding = Encoding::kRaw;
  std::span<const std::byte> bytes;
  ArrayLayout array{};          // for kArray: the whole array of the file
  uint64_t sample_in_file = 0;  // for kArray with several samples: index on `sample_axis`
  int sample_axis = -1;         // -1: the array is one sample
};

// A named part of a sample: the members of a tar that share a key, the arrays of an npz, the
// features of an Example. Names and bytes are valid as a Record's are.
struct Part {
  std::string_view name;
  Record record{};
};

// The name of a format's only part: "image" for jpeg and png, "text", "json", else "data".
std::string_view part_name(Encoding encoding);

// How the samples of one file can be reached.
enum class Access {
  kWholeFile,  // one sample: the file
  kExtents,    // several samples, each a range of bytes of its own
  kTogether,   // several samples that only come by reading the file whole (compressed, interleaved)
  kBlocks,     // several samples in units that are read and decoded at once (chunks, row groups)
};

// A unit of reading: samples [first_sample, first_sample + sample_count) come from the bytes of
// `extents`, put one after the other in this order.
struct Block {
  uint64_t first_sample = 0, sample_count = 0;
  std::vector<Extent> extents{};
};

// A file is cut or damaged from this byte on: what would follow is lost, and how many samples that
// is nobody knows.
struct FileDamage {
  uint64_t offset = 0;
  std::string what{};
  friend bool operator==(const FileDamage&, const FileDamage&) = default;
};

struct FileIndex {
  Access access = Access::kWholeFile;
  uint64_t sample_count = 1;
  ExtentList extents{};  // kExtents: one per sample, framing included
  // npy and npz with kExtents: the layout of every extent, which has no header of its own.
  std::optional<ArrayLayout> extent_array{};
  std::vector<Block> blocks{};  // kBlocks: in the order of their samples, none empty, no gaps
  // What else the reader needs to know of the file (filters, column chunks), in a form only it
  // reads; equal for files that are laid out alike where the format allows.
  std::string detail{};
  // What samples of the file lack or could not be made of it, for people: a few lines at most.
  std::vector<std::string> problems{};
  std::optional<FileDamage> damage{};  // those listed above are whole
};

// What the caller knows of a data set's files; formats that need none ignore it.
struct FormatOptions {
  uint64_t samples_per_file = 1;  // expected; more than one makes npz and npy split their last axis
  uint64_t record_bytes = 0;      // raw: fixed record size; 0 = the file is one record
  // parquet: columns to read, empty = all; hdf5: data sets of a record, empty = found by name
  // For whole samples (read_parts) also: members of an npz, parts of a tar, features of an Example.
  std::vector<std::string> columns{};
  // raw with record_bytes: what a record is; unset = bytes.
  std::optional<ArrayLayout> record_array{};
  // tokens: length of a window; windows cross documents.
  uint64_t tokens_per_sample = 0;
};

// A block after decoding. Immutable; safe to use from any thread.
class DecodedBlock {
 public:
  virtual ~DecodedBlock() = default;
  // `sample` counts from the block's first; the record's bytes live as long as this object.
  virtual Result<Record> at(uint64_t sample) const = 0;
  // Every part of it; `out` is cleared first. By default the one that at() gives.
  virtual Status parts_at(uint64_t sample, std::vector<Part>& out) const;
  virtual uint64_t bytes() const = 0;  // decoded, of all samples
};

// Checks bytes as they pass, without keeping them. Give it to one read of a whole file, then
// finish().
class StreamCheck : public storage::PieceVisitor {
 public:
  // Ready for another file of `file_bytes`; `path` is for messages.
  virtual void begin(std::string_view path, uint64_t file_bytes) = 0;
  // kCorruption with member, offset and cause. kUnsupported: this file cannot be checked in passing
  // (decode it whole instead).
  virtual Status finish() = 0;
  virtual uint64_t payload_bytes() const = 0;  // decoded sample bytes seen
};

class Reader {
 public:
  virtual ~Reader() = default;

  // Takes sample `sample_in_file` out of `bytes`: the extent for kExtents, else the whole file.
  // Checks every checksum the format has. Errors name `path`, member or record, and offset.
  virtual Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                              const FileIndex& index, uint64_t sample_in_file) = 0;

  // Every part of the sample that read() takes one record of; `out` is cleared first. By default
  // that record alone, named part_name(encoding). A part "__key__" (text) names the sample where
  // the file does; a part "label" (a scalar int64) is its class where the file tells.
  virtual Status read_parts(std::string_view path, std::span<const std::byte> bytes,
                            const FileIndex& index, uint64_t sample_in_file,
                            std::vector<Part>& out);

  // For kBlocks, in the place of read(): `bytes` is the block's extents one after the other.
  virtual Result<std::shared_ptr<const DecodedBlock>> decode_block(std::string_view path,
                                                                   std::span<const std::byte> bytes,
                                                                   const FileIndex& index,
                                                                   const Block& block);

  // Null when the format has nothing to check in passing.
  virtual std::unique_ptr<StreamCheck> make_stream_check() { return nullptr; }
};

enum class Compression { kNone, kGzip, kLzf, kBz2, kZip, kXz };
std::string_view compression_name(Compression compression);  // DLIO's: "none", "gzip"
std::optional<Compression> compression_from_name(std::string_view name);

// Whose layout a file is made in, where the three programs of that name differ.
enum class Dialect { kDlioMain, kMlpsV2, kMlpsV3 };

// A column of a parquet file that is made.
struct Column {
  std::string name;
  ElementType type = ElementType::kU8;
  uint64_t values = 1;  // per row: 1 = a scalar, more = a list of fixed size
};

// What to put into a generated file.
struct FileSpec {
  std::string path;                // relative to the store
  uint64_t rows = 0, columns = 0;  // DLIO's two dimensions of one record, in bytes
  std::vector<uint64_t> shape{};   // when not empty: overrides rows x columns (dataset.record_dims)
  ElementType type = ElementType::kU8;
  uint64_t sample_count = 1;
  Compression compression = Compression::kNone;
  int compression_level = 4;
  Dialect dialect = Dialect::kDlioMain;
  uint64_t seed = 0;                   // of this file: same seed, same bytes
  std::vector<uint64_t> chunk_dims{};  // hdf5: shape of a chunk; empty = contiguous
  std::vector<uint64_t> max_shape{};   // hdf5: largest shape; empty = the shape itself
  uint64_t datasets_per_record = 1;    // hdf5: dataset.hdf5.num_dset_per_record
  std::vector<Column> table{};         // parquet: its columns
  uint64_t row_group_rows = 1024;      // parquet
};

struct Format {
  std::string_view name;  // DLIO's name: "npz"
  std::string_view summary;
  std::span<const std::string_view> extensions;         // lower case, without dot
  bool (*recognises)(std::span<const std::byte> head);  // from the first bytes (64 are enough)

  // How samples lie in the file. Reads as little as the format allows.
  Result<FileIndex> (*index)(storage::Store& store, const storage::FileInfo& file,
                             const FormatOptions& options);
  std::unique_ptr<Reader> (*make_reader)(const FormatOptions& options);

  // What dataset.compression may say of files that are made; kNone is always among them.
  std::span<const Compression> compressions;

  // Whether files can be made here at all: kUnsupported names what is missing. nullptr: always.
  Status (*check_write)() = nullptr;
  // Writes the file whole through `writer` (append, patch); the caller syncs and publishes.
  Status (*write)(storage::Writer& writer, bool can_patch, const FileSpec& spec);
  // Bytes that `write` will produce, exact where the format allows and an upper bound otherwise.
  uint64_t (*estimate_bytes)(const FileSpec& spec);
  // Of files that are made; "": the format's name.
  std::string_view file_extension = {};
  // What a file's name gets appended when it is compressed (".gz"); nullptr: nothing.
  std::string_view (*name_suffix)(Compression compression) = nullptr;
  // Paths of the files that lie beside a data file and say where its samples are; nullptr: none.
  std::vector<std::string> (*side_paths)(std::string_view path) = nullptr;
  // Formats of one family take each other's files: those of a folder are read together when none is
  // asked for. "": none.
  std::string_view family = {};
  // Writes the side file side_paths(path)[which] of the data file that `write` makes from `spec`.
  // Compressed files have none.
  Status (*write_side)(storage::Writer& writer, const FileSpec& spec, size_t which) = nullptr;
};

// kUnsupported, naming what the format takes, for a compression it does not have.
Status check_compression(const Format& format, Compression compression);

std::span<const Format* const> builtin_formats();
// Null when there is none of that name; "jpg" finds jpeg.
const Format* find_format(std::string_view name);
// Lower case, without dot: "npz", and "csv.gz" where the name of a compressed file says both; of a
// part named "a.tfrecord-00003-of-00010" too. Empty for "README" and ".hidden".
std::string extension_of(std::string_view path);
// By content first, then by extension; null when nothing fits. A name such as "a.csv.gz" says more
// than the content, which any format could be packed in.
const Format* recognise_format(std::string_view path, std::span<const std::byte> head);

}  // namespace forebay::formats
