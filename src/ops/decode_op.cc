// decode_image: an encoded part becomes the field "image".
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "formats/content_kind.h"
#include "ops/builtin_ops.h"

namespace forebay::ops {
namespace {

using formats::Encoding;
using formats::Record;

constexpr std::array<std::string_view, 4> kModes{"as_stored", "L", "RGB", "RGBA"};

bool is_image(const Value& value) {
  if (value.kind != Value::Kind::kPart || value.record.encoding == Encoding::kArray) return false;
  return formats::is_jpeg(value.record.bytes) || formats::is_png(value.record.bytes);
}

struct DecodeSettings {
  ImageMode mode = ImageMode::kRgb;
  bool orients = true;
  bool keeps_16_bit = false;
  double oversampling = 2;
};

Result<Image> decode_png(Workspace& workspace, const Record& record,
                         const DecodeSettings& settings) {
  auto& decoder =
      workspace.decoder(settings.mode == ImageMode::kRgb, settings.keeps_16_bit, settings.orients);
  const Record png{.encoding = Encoding::kPng, .bytes = record.bytes};
  const uint64_t bytes = FB_TRY(decoder.decoded_bytes({}, png));
  const uint64_t scratch = FB_TRY(decoder.scratch_bytes(png));
  FB_TRY(workspace.hold_for(decoder, scratch));
  const auto memory = FB_TRY(workspace.take(bytes));
  const Sample sample = FB_TRY(decoder.decode({}, png, memory));
  const auto channels = static_cast<uint32_t>(sample.shape[2]);
  const ImageView view{.data = sample.bytes.data(),
                       .row_bytes = sample.bytes.size() / sample.shape[0],
                       .width = static_cast<uint32_t>(sample.shape[1]),
                       .height = static_cast<uint32_t>(sample.shape[0]),
                       .channels = channels,
                       .step = channels,
                       .type = sample.type};
  const bool converts = (settings.mode == ImageMode::kGrey && channels != 1) ||
                        (settings.mode == ImageMode::kRgba && channels != 4);
  if (converts) return convert_mode(workspace, view, settings.mode);
  return image_of(view, true);
}

Status decode_value(Workspace& workspace, Value& value, const DecodeSettings& settings) {
  const Record record = value.record;
  if (formats::is_png(record.bytes)) {
    value.image = FB_TRY(decode_png(workspace, record, settings));
  } else {
    value.image = FB_TRY(open_jpeg(workspace, record.bytes, settings.mode, settings.orients));
    value.image.oversampling = settings.oversampling;
  }
  value.kind = Value::Kind::kImage;
  return {};
}

class DecodeImage : public Step {
 public:
  DecodeImage(const Arguments& arguments, const DecodeSettings& settings)
      : part_(arguments.text("part")), to_(arguments.text("to")), settings_(settings) {}

  Status run(SampleState& state) const override {
    Value* value = FB_TRY(choose(state));
    const std::string_view from = value->name;
    if (!is_image(*value))
      return fail(ErrorCode::kCorruption, "part '{}' is neither JPEG nor PNG: {}", from,
                  value->kind == Value::Kind::kPart && value->record.encoding != Encoding::kArray
                      ? formats::content_kind(value->record.bytes)
                      : "an array");
    if (from != to_ && state.find(to_) != nullptr)
      return fail(ErrorCode::kInvalidArgument, "there is a field '{}' already", to_);
    FB_TRY(decode_value(state.workspace(), *value, settings_));
    value->name = to_;
    return {};
  }

 private:
  Result<Value*> choose(SampleState& state) const {
    if (!part_.empty()) {
      for (const std::string_view name : base::split(part_, ';'))
        if (Value* value = state.find(base::trim(name))) return value;
      return state.get(part_);
    }
    for (Value& value : state.values())
      if (is_image(value)) return &value;
    // A single part that is no image: say what it is instead.
    if (state.values().size() == 1) return &state.values().front();
    return fail(ErrorCode::kNotFound, "no part is a JPEG or PNG image");
  }

  std::string part_, to_;
  DecodeSettings settings_;
};

// What an empty list of ops stands for: every image is decoded under its own name.
class DecodeAll : public Step {
 public:
  explicit DecodeAll(const DecodeSettings& settings) : settings_(settings) {}
  Status run(SampleState& state) const override {
    for (Value& value : state.values())
      if (value.kind == Value::Kind::kPart &&
          (value.record.encoding == Encoding::kJpeg || value.record.encoding == Encoding::kPng))
        FB_TRY(decode_value(state.workspace(), value, settings_));
    return {};
  }

 private:
  DecodeSettings settings_;
};

constexpr std::array kArguments{
    OpArgument{"part", "text", "''",
               "the part that holds it; several alternatives with ';' between them (jpg;png); "
               "empty: the first part that is a JPEG or PNG by its content"},
    OpArgument{"to", "text", "image", "name of the field"},
    OpArgument{"mode", "text", "RGB",
               "RGB, L (grey), RGBA, as Image.convert of Pillow makes them, or as_stored"},
    OpArgument{"orientation", "flag", "true", "turn and mirror as EXIF says"},
    OpArgument{"keep_16_bit", "flag", "false",
               "PNG of 16 bits as uint16; else their high byte as uint8"},
    OpArgument{"oversampling", "number", "2",
               "a JPEG that is made smaller is decoded at 4/8, 2/8 or 1/8 of its size where at "
               "least this many pixels remain for each one wanted, along each side; >= 1, or 0: "
               "always at full size"},
};

Result<std::unique_ptr<Step>> make(const Arguments& arguments, const DecodeOptions& decode) {
  DecodeSettings settings;
  const std::string& mode = arguments.text("mode");
  const auto found = std::find(kModes.begin(), kModes.end(), mode);
  if (found == kModes.end())
    return fail(ErrorCode::kInvalidArgument, "mode: {}",
                base::unknown_name_message("mode", mode, kModes));
  settings.mode = static_cast<ImageMode>(found - kModes.begin());
  settings.orients = arguments.flag("orientation") && decode.apply_orientation;
  settings.keeps_16_bit = arguments.flag("keep_16_bit") || decode.keep_16_bit;
  settings.oversampling = arguments.number("oversampling");
  if (settings.oversampling != 0 && settings.oversampling < 1)
    return fail(ErrorCode::kInvalidArgument, "oversampling {}: at least 1, or 0",
                settings.oversampling);
  if (arguments.text("to").empty()) return fail(ErrorCode::kInvalidArgument, "to: an empty name");
  return make_step<DecodeImage>(arguments, settings);
}

}  // namespace

const OpKind kDecodeImage{
    .info = {"decode_image", "An encoded part becomes pixels, height x width x channels.",
             kArguments},
    .make = make};

std::unique_ptr<Step> make_decode_all(const DecodeOptions& decode) {
  return make_step<DecodeAll>(
      DecodeSettings{.mode = decode.convert_to_rgb ? ImageMode::kRgb : ImageMode::kAsStored,
                     .orients = decode.apply_orientation,
                     .keeps_16_bit = decode.keep_16_bit});
}

}  // namespace forebay::ops
