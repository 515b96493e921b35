// Random rows -> a parquet file as pyarrow lays it out: a scalar or a list of fixed size per
// column, Arrow's own schema beside parquet's, checksums on pages. At most one row group is in
// memory.
#include <arrow/io/interfaces.h>
#include <arrow/ipc/writer.h>
#include <arrow/type.h>
#include <arrow/util/base64.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/schema.h>
#include <parquet/column_writer.h>
#include <parquet/exception.h>
#include <parquet/file_writer.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "formats/parquet_parts.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

// Arrow writes into a storage::Writer, whose first error is kept.
class WriterStream : public arrow::io::OutputStream {
 public:
  explicit WriterStream(storage::Writer& writer) : writer_(writer) {
    set_mode(arrow::io::FileMode::WRITE);
  }
  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, int64_t bytes) override {
    Status status =
        writer_.append({static_cast<const std::byte*>(data), static_cast<size_t>(bytes)});
    if (!status.ok()) {
      error = std::move(status).error();
      return arrow::Status::IOError(error->message);
    }
    position_ += bytes;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }

  std::optional<Error> error;

 private:
  storage::Writer& writer_;
  int64_t position_ = 0;
  bool is_closed_ = false;
};

std::shared_ptr<arrow::DataType> arrow_type(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return arrow::uint8();
    case ElementType::kU16:
      return arrow::uint16();
    case ElementType::kU32:
      return arrow::uint32();
    case ElementType::kU64:
      return arrow::uint64();
    case ElementType::kI8:
      return arrow::int8();
    case ElementType::kI16:
      return arrow::int16();
    case ElementType::kI32:
      return arrow::int32();
    case ElementType::kI64:
      return arrow::int64();
    case ElementType::kF16:
      return arrow::float16();
    case ElementType::kF32:
      return arrow::float32();
    case ElementType::kF64:
      return arrow::float64();
    case ElementType::kBool:
      return arrow::boolean();
    default:
      return nullptr;
  }
}

// Stored as 32 bits; a dictionary brings them back to their width.
bool is_narrow(ElementType type) {
  return element_bytes(type) <= 2 && type != ElementType::kF16 && type != ElementType::kBool &&
         type != ElementType::kBF16;
}

// Columns of the file: those asked for, or the one that holds a record's bytes.
Result<std::vector<Column>> columns_of(const FileSpec& spec) {
  const auto wrong = [&](const Column& column, std::string_view what) {
    return fail(ErrorCode::kInvalidArgument, "{}: column '{}': {}", spec.path, column.name, what);
  };
  if (spec.sample_count == 0 || spec.row_group_rows == 0)
    return fail(ErrorCode::kInvalidArgument, "{}: {} rows in row groups of {}", spec.path,
                spec.sample_count, spec.row_group_rows);
  if (spec.table.empty()) {
    FB_TRY(check_spec(spec));
    return std::vector<Column>{{.name = "data", .values = record_bytes(spec)}};
  }
  std::set<std::string_view> names;
  for (const Column& column : spec.table) {
    if (column.name.empty()) return wrong(column, "it has no name");
    if (!names.insert(column.name).second) return wrong(column, "it is there twice");
    if (column.values == 0 || column.values > INT32_MAX)
      return wrong(column, fmt::format("{} values per row", column.values));
    if (arrow_type(column.type) == nullptr)
      return wrong(column, fmt::format("parquet has no {}", element_name(column.type)));
  }
  return spec.table;
}

std::shared_ptr<arrow::Schema> schema_of(const FileSpec& spec, const std::vector<Column>& columns) {
  arrow::FieldVector fields;
  for (const Column& column : columns) {
    auto type = arrow_type(column.type);
    if (spec.table.empty())
      type = arrow::list(arrow::field("element", type));
    else if (column.values > 1)
      type = arrow::fixed_size_list(arrow::field("element", type),
                                    static_cast<int32_t>(column.values));
    fields.push_back(arrow::field(column.name, type));
  }
  return arrow::schema(fields);
}

std::shared_ptr<parquet::WriterProperties> properties_of(const FileSpec& spec,
                                                         const std::vector<Column>& columns) {
  parquet::WriterProperties::Builder builder;
  builder.disable_dictionary()->disable_statistics()->enable_page_checksum();
  if (spec.compression == Compression::kGzip)
    builder.compression(parquet::Compression::GZIP)->compression_level(spec.compression_level);
  for (const Column& column : columns) {
    const bool is_list = spec.table.empty() || column.values > 1;
    if (is_narrow(column.type))
      builder.enable_dictionary(is_list ? column.name + ".list.element" : column.name);
  }
  return builder.build();
}

// The contents of one column, which go on from row group to row group.
class ColumnSource {
 public:
  ColumnSource(const FileSpec& spec, const Column& column, size_t number, bool is_list)
      : column_(column),
        is_list_(is_list),
        payload_(FileSpec{.path = spec.path,
                          .rows = 1,
                          .columns = column.values,
                          .type = column.type,
                          .seed = base::derive_seed(spec.seed, number)}) {}

  Status write(parquet::ColumnWriter& writer, uint64_t rows) {
    switch (writer.type()) {
      case parquet::Type::BOOLEAN:
        return write_as<parquet::BooleanType>(writer, rows);
      case parquet::Type::INT32:
        return write_as<parquet::Int32Type>(writer, rows);
      case parquet::Type::INT64:
        return write_as<parquet::Int64Type>(writer, rows);
      case parquet::Type::FLOAT:
        return write_as<parquet::FloatType>(writer, rows);
      case parquet::Type::DOUBLE:
        return write_as<parquet::DoubleType>(writer, rows);
      default:
        return write_as<parquet::FLBAType>(writer, rows);
    }
  }

 private:
  template <class Type>
  Status write_as(parquet::ColumnWriter& writer, uint64_t rows) {
    using Value = typename Type::c_type;
    auto& typed = static_cast<parquet::TypedColumnWriter<Type>&>(writer);
    const size_t width = element_bytes(column_.type);
    std::vector<Value> converted;
    const auto definition = writer.descr()->max_definition_level();
    uint64_t position = 0;
    return payload_.produce(rows * column_.values * width, [&](std::span<const std::byte> piece) {
      const uint64_t count = piece.size() / width;
      definitions_.resize(std::max(definitions_.size(), count), definition);
      repetitions_.resize(definitions_.size());
      for (uint64_t i = 0; is_list_ && i < count; ++i)
        repetitions_[i] = (position + i) % column_.values == 0 ? 0 : 1;
      position += count;
      const Value* values = reinterpret_cast<const Value*>(piece.data());
      if constexpr (std::is_same_v<Type, parquet::FLBAType> ||
                    std::is_same_v<Type, parquet::Int32Type>)
        if (is_narrow(column_.type) || column_.type == ElementType::kF16)
          values = convert(piece, width, converted);
      typed.WriteBatch(static_cast<int64_t>(count), definitions_.data(),
                       is_list_ ? repetitions_.data() : nullptr, values);
      return Status();
    });
  }

  // Narrow integers widened with their sign; half floats by their address.
  template <class Value>
  const Value* convert(std::span<const std::byte> piece, size_t width, std::vector<Value>& out) {
    out.resize(piece.size() / width);
    for (size_t i = 0; i < out.size(); ++i) {
      const std::byte* from = piece.data() + i * width;
      if constexpr (std::is_same_v<Value, parquet::FixedLenByteArray>) {
        out[i].ptr = reinterpret_cast<const uint8_t*>(from);
      } else {
        uint16_t bits = 0;
        std::memcpy(&bits, from, width);
        switch (column_.type) {
          case ElementType::kI8:
            // NOLINTNEXTLINE(bugprone-signed-char-misuse): a number, not a letter
            out[i] = static_cast<Value>(static_cast<int8_t>(bits));
            break;
          case ElementType::kI16:
            out[i] = static_cast<Value>(static_cast<int16_t>(bits));
            break;
          default:
            out[i] = static_cast<Value>(bits);
        }
      }
    }
    return out.data();
  }

  const Column& column_;
  bool is_list_;
  Payload payload_;
  std::vector<int16_t> definitions_, repetitions_;
};

Status write_rows(WriterStream& stream, const FileSpec& spec, const std::vector<Column>& columns) {
  const auto schema = schema_of(spec, columns);
  const auto properties = properties_of(spec, columns);
  std::shared_ptr<parquet::SchemaDescriptor> descriptor;
  PARQUET_THROW_NOT_OK(parquet::arrow::ToParquetSchema(schema.get(), *properties, &descriptor));
  PARQUET_ASSIGN_OR_THROW(const auto serialised, arrow::ipc::SerializeSchema(*schema));
  const auto metadata = arrow::key_value_metadata(
      {"ARROW:schema"}, {arrow::util::base64_encode(std::string_view(*serialised))});
  const auto file = parquet::ParquetFileWriter::Open(
      std::shared_ptr<arrow::io::OutputStream>(&stream, [](auto*) {}),
      std::static_pointer_cast<parquet::schema::GroupNode>(descriptor->schema_root()), properties,
      metadata);
  std::vector<std::unique_ptr<ColumnSource>> sources;
  for (size_t i = 0; i < columns.size(); ++i)
    sources.push_back(std::make_unique<ColumnSource>(spec, columns[i], i,
                                                     spec.table.empty() || columns[i].values > 1));
  for (uint64_t done = 0; done < spec.sample_count;) {
    const uint64_t rows = std::min(spec.row_group_rows, spec.sample_count - done);
    parquet::RowGroupWriter* group = file->AppendRowGroup();
    for (const auto& source : sources) FB_TRY(source->write(*group->NextColumn(), rows));
    group->Close();
    done += rows;
  }
  file->Close();
  return {};
}

}  // namespace

Status write_parquet(storage::Writer& writer, const FileSpec& spec) {
  if (spec.compression != Compression::kNone && spec.compression != Compression::kGzip)
    return fail(ErrorCode::kUnsupported, "{}: parquet is not compressed with {} here", spec.path,
                compression_name(spec.compression));
  const std::vector<Column> columns = FB_TRY(columns_of(spec));
  WriterStream stream(writer);
  try {
    return write_rows(stream, spec, columns);
  } catch (...) {
    if (stream.error) return *stream.error;
    return parquet_error(spec.path);
  }
}

}  // namespace forebay::formats
