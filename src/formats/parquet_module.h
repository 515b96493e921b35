// What the module forebay_parquet.so does for the format `parquet`. Only it knows Apache Arrow.
//
// Safe to call from any thread. The object lives as long as the process. Nothing here throws.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "formats/format.h"

namespace forebay::formats {

class ParquetModule {
 public:
  virtual ~ParquetModule() = default;

  virtual std::string library() const = 0;  // "Apache Arrow 26.0.1"
  // As in Format.
  virtual Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                                  const FormatOptions& options) const = 0;
  virtual std::unique_ptr<Reader> make_reader() const = 0;
  virtual Status write(storage::Writer& writer, const FileSpec& spec) const = 0;
};

// The C function of the module; null when the module was built from other headers than the caller.
inline constexpr char kParquetModuleSymbol[] = "forebay_parquet_module";
using ParquetModuleFunction = const ParquetModule* (*)(uint64_t interface_mark);

// Differs when the structs that cross the border differ in size.
constexpr uint64_t parquet_interface_mark() {
  uint64_t mark = 3;  // counted up when ParquetModule, Reader, Store or Writer changes
  for (const uint64_t size : {sizeof(FileIndex), sizeof(FormatOptions), sizeof(FileSpec),
                              sizeof(Column), sizeof(Record), sizeof(Block)})
    mark = mark * 1009 + size;
  return mark;
}

}  // namespace forebay::formats
