#include "ops/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "ops/builtin_ops.h"

namespace forebay::ops {

using formats::Encoding;

namespace {

struct Placed {
  std::string label;  // "op 2 (resize)"
  std::unique_ptr<Step> step;
};

FieldKind kind_of(const Value& value) {
  if (value.kind == Value::Kind::kText) return FieldKind::kText;
  switch (value.record.encoding) {
    case Encoding::kText:
    case Encoding::kJson:
      return FieldKind::kText;
    default:
      return FieldKind::kBytes;
  }
}

}  // namespace

class Pipeline::Impl {
 public:
  DecodeOptions decode;
  std::vector<Placed> steps;
  std::set<std::string, std::less<>> ragged;
  uint64_t fingerprint = 0;
};

namespace {

uint64_t hash(uint64_t seed, std::string_view text) {
  for (const char c : text) seed = base::mix64(seed ^ static_cast<unsigned char>(c));
  return seed;
}

class StepRunner : public Runner {
 public:
  StepRunner(const std::vector<Placed>& steps, const DecodeOptions& decode)
      : steps_(steps), workspace_(decode) {}

  Status run(const SampleKey& key, std::string_view path, std::span<const formats::Part> parts,
             Destination& to, std::vector<Field>& out) override {
    out.clear();
    workspace_.reset();
    SampleState state(workspace_, key, parts);
    for (size_t place = 0; place < steps_.size(); ++place) {
      state.enter(place);
      FB_TRY(name(path, steps_[place], steps_[place].step->run(state)));
    }
    for (const Placed& placed : steps_) FB_TRY(name(path, placed, placed.step->check_end(state)));
    for (Value& value : state.values()) {
      Result<Field> field = finish(state, value, to);
      if (!field.ok())
        return fail(field.error().code, "{}: field '{}': {}", path, value.name,
                    field.error().message);
      out.push_back(std::move(*field));
    }
    return {};
  }
  void rest() override { workspace_.reset(); }

 private:
  static Status name(std::string_view path, const Placed& placed, Status status) {
    if (status.ok()) return status;
    return fail(status.error().code, "{}: {}: {}", path, placed.label, status.error().message);
  }

  Result<Field> finish(SampleState& state, Value& value, Destination& to) {
    if (value.kind == Value::Kind::kImage)
      return finish_image(workspace_, value.name, value.image, &to);
    const bool is_array =
        value.kind == Value::Kind::kArray ||
        (value.kind == Value::Kind::kPart && value.record.encoding == Encoding::kArray);
    if (!is_array) {
      const auto bytes = value.kind == Value::Kind::kText ? value.bytes : value.record.bytes;
      return Field{.name = value.name,
                   .kind = kind_of(value),
                   .type = formats::ElementType::kU8,
                   .shape = {bytes.size()},
                   .bytes = bytes};
    }
    if (value.kind == Value::Kind::kPart) return decode_array(value, to);
    Field field{.name = value.name, .type = value.type, .shape = value.shape, .bytes = value.bytes};
    const auto placed = to.place(field.name, field.type, field.shape);
    if (placed.size() == field.bytes.size() && !placed.empty()) {
      std::copy(field.bytes.begin(), field.bytes.end(), placed.begin());
      field.bytes = placed;
    }
    static_cast<void>(state);
    return field;
  }

  // Straight from the file's order into the batch.
  Result<Field> decode_array(const Value& value, Destination& to) {
    const formats::Record& record = value.record;
    auto& decoder = workspace_.decoder(false, false, false);
    const uint64_t bytes = FB_TRY(decoder.decoded_bytes({}, record));
    Field field{.name = value.name, .type = record.array.type, .shape = record.array.shape};
    if (record.sample_axis >= 0) field.shape.erase(field.shape.begin() + record.sample_axis);
    std::span<std::byte> memory = to.place(field.name, field.type, field.shape);
    if (memory.size() != bytes) memory = {};
    Sample sample = FB_TRY(decoder.decode({}, record, memory));
    if (memory.empty() && !sample.bytes.empty() && !is_within(sample.bytes, record.bytes)) {
      // The decoder's own memory is for one array at a time.
      const auto kept = FB_TRY(workspace_.take(sample.bytes.size()));
      std::copy(sample.bytes.begin(), sample.bytes.end(), kept.begin());
      sample.bytes = kept;
    }
    field.bytes = sample.bytes;
    return field;
  }

  static bool is_within(std::span<const std::byte> part, std::span<const std::byte> whole) {
    return part.data() >= whole.data() && part.data() < whole.data() + whole.size();
  }

  const std::vector<Placed>& steps_;
  Workspace workspace_;
};

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> names;
  for (const OpKind* kind : builtin_ops()) names.push_back(kind->info.name);
  std::sort(names.begin(), names.end());
  return names;
}

// What can be known without a sample: colours come before numbers.
Status check_order(const std::vector<Placed>& steps) {
  const Placed* last = nullptr;
  for (const Placed& placed : steps) {
    if (placed.step->is_last_for_pixels()) last = &placed;
    if (placed.step->needs_pixels() && last != nullptr)
      return fail(ErrorCode::kInvalidArgument, "{} cannot follow {}: it changes uint8 pixels",
                  placed.label, last->label);
  }
  return {};
}

}  // namespace

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;
Pipeline::~Pipeline() = default;

Result<Pipeline> Pipeline::make(std::span<const Op> ops, const DecodeOptions& decode) {
  auto impl = std::make_unique<Impl>();
  impl->decode = decode;
  uint64_t print = base::mix64(ops.size());
  print = hash(print, fmt::format("{}{}{}{}", decode.apply_orientation, decode.convert_to_rgb,
                                  decode.keep_16_bit, decode.fast_dct));
  for (const Op& op : ops) {
    const OpKind* kind = find_op(op.name);
    if (kind == nullptr)
      return fail(ErrorCode::kInvalidArgument, "{}",
                  base::unknown_name_message("op", op.name, known_names()));
    const std::string label = fmt::format("op {} ({})", impl->steps.size() + 1, op.name);
    const Arguments arguments = FB_TRY(Arguments::make(kind->info, op).context(label));
    auto step = FB_TRY(kind->make(arguments, decode).context(label));
    step->note_ragged(impl->ragged);
    print = hash(print, fmt::format("{}({})", op.name, arguments.canonical()));
    impl->steps.push_back({label, std::move(step)});
  }
  FB_TRY(check_order(impl->steps));
  if (ops.empty()) impl->steps.push_back({"decode", make_decode_all(decode)});
  impl->fingerprint = print;
  return Pipeline(std::move(impl));
}

std::unique_ptr<Runner> Pipeline::make_runner() const {
  return std::make_unique<StepRunner>(impl_->steps, impl_->decode);
}

bool Pipeline::is_ragged(std::string_view field) const {
  return impl_->ragged.contains(field);
}

uint64_t Pipeline::fingerprint() const {
  return impl_->fingerprint;
}

}  // namespace forebay::ops
