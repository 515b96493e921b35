#include "report/page.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/blob.h"
#include "report/flame.h"
#include "report/page_assets.h"

namespace forebay::report {
namespace {

using Json = nlohmann::ordered_json;
using trace::Recording;

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// What each file says of itself, and how it was brought onto the common clock.
Json files_json(const Recording& recording) {
  Json files = Json::array();
  for (const trace::RecordingFile& file : recording.files()) {
    Json facts = Json::object();
    for (const auto& [key, value] : file.facts) facts[key] = value;
    files.push_back(
        Json{{"path", file.path},
             {"is_finished", file.is_finished},
             {"damage", file.damage ? Json(file.damage->message) : Json(nullptr)},
             {"bytes", file.bytes},
             {"events", file.events},
             {"shift_ns", file.shift_ns},
             {"shift_uncertainty_ns",
              file.shift_uncertainty_ns ? Json(*file.shift_uncertainty_ns) : Json(nullptr)},
             {"facts", std::move(facts)}});
  }
  return files;
}

std::string about_json(const PageInput& input) {
  Json json{
      {"title", input.title}, {"version", input.version}, {"against_title", input.against_title}};
  if (input.recording != nullptr) json["files"] = files_json(*input.recording);
  if (input.against != nullptr) json["against_files"] = files_json(*input.against);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class PageWriter {
 public:
  explicit PageWriter(const PageSink& sink) : sink_(sink) {}

  // An element that no browser runs, with bytes that the page's script unpacks.
  Status blob(std::string_view name, std::string_view bytes) {
    if (bytes.empty()) return {};
    FB_TRY(sink_(fmt::format(R"(<script type="application/octet-stream" id="forebay-{}">)", name)));
    const std::string packed = FB_TRY(pack_blob(bytes));
    FB_TRY(sink_(packed));
    return sink_("</script>\n");
  }

  Status head(const PageInput& input, const PageAssets& assets) {
    FB_TRY(sink_(fmt::format(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; "
        "form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n<title>{} \u00b7 Forebay</title>\n<style>",
        assets.script_sha256, assets.style_sha256, escape_html(input.title.substr(0, 256)))));
    FB_TRY(sink_(assets.style));
    return sink_(
        "</style>\n</head>\n<body>\n<div id=\"app\"><noscript>This report draws itself with "
        "JavaScript, from the data in this file; no network is used.</noscript></div>\n");
  }

 private:
  const PageSink& sink_;
};

Status write_flames(PageWriter& writer, const Recording& recording, std::string_view suffix) {
  const Flame samples = make_sample_flame(recording);
  FB_TRY(writer.blob(fmt::format("samples{}", suffix), samples.blob));
  const Flame spans = make_span_flame(recording);
  return writer.blob(fmt::format("spans{}", suffix), spans.blob);
}

}  // namespace

Status write_page(const PageInput& input, const PageSink& sink) {
  const PageAssets& assets = page_assets();
  if (!assets.missing.empty())
    return fail(ErrorCode::kUnsupported, "this program was built without the report page: {}",
                assets.missing);
  PageWriter writer(sink);
  FB_TRY(writer.head(input, assets));
  FB_TRY(writer.blob("about", about_json(input)));
  FB_TRY(writer.blob("explanation", input.explanation));
  FB_TRY(writer.blob("result", input.result));
  FB_TRY(writer.blob("result-against", input.result_against));
  if (input.recording != nullptr) {
    const Timeline timeline = make_timeline(*input.recording, input.timeline);
    FB_TRY(writer.blob("timeline", timeline.blob));
    FB_TRY(write_flames(writer, *input.recording, ""));
  }
  if (input.recording != nullptr && input.against != nullptr)
    FB_TRY(write_flames(writer, *input.against, "-against"));
  FB_TRY(sink("<script>"));
  FB_TRY(sink(assets.script));
  return sink("</script>\n</body>\n</html>\n");
}

}  // namespace forebay::report
