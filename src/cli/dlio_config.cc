#include "cli/dlio_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/dlio_interpolation.h"
#include "cli/dlio_tree.h"
#include "cli/dlio_yaml.h"
#include "cli/version.h"
#include "sys/directory.h"
#include "sys/file.h"
#include "workload/builtin_yaml.h"

namespace forebay::cli {
namespace {

using workload::Node;
using Kind = DlioOverride::Kind;

constexpr int kIncludesMax = 16;
constexpr std::string_view kDefaultRunDir =
    "./hydra_log/${workload.model.name}/${now:%Y-%m-%d}-${now:%H-%M-%S}";

// What Hydra has when nobody says otherwise, as far as its settings mean anything here.
constexpr std::string_view kHydraDefaults = R"(
run: {dir: ''}
sweep: {dir: 'multirun/${now:%Y-%m-%d}/${now:%H-%M-%S}', subdir: '${hydra.job.num}'}
hydra_logging: {version: 1, root: {level: ERROR}, disable_existing_loggers: true}
job_logging: {version: 1, root: {level: ERROR}, disable_existing_loggers: true}
env: {}
mode: RUN
searchpath: []
callbacks: {}
output_subdir: .hydra
overrides: {hydra: [], task: []}
job: {name: dlio_benchmark, chdir: null, override_dirname: '', config_name: config}
runtime: {}
verbose: false
)";

Node text_node(std::string text) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(text);
  node.is_quoted = true;
  return node;
}

Node list_node(const std::vector<std::string>& texts) {
  Node node;
  node.kind = Node::Kind::kList;
  for (const std::string& text : texts) node.items.push_back(text_node(text));
  return node;
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "{}: cannot be opened", path);
  std::string text(workload::DocumentLimits{}.bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail(ErrorCode::kIo, "{}: cannot be read", path);
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

struct Document {
  std::string label, origin;
  bool has_lines = true;
};

// A workload's file or built-in.
struct Source {
  std::string yaml;
  Document document;
};

// Without its defaults list and with it apart.
struct Parsed {
  Node body;
  Node defaults;
  Node wrapped;            // what stood below a "workload:" of its own, as `body` does
  bool is_global = false;  // "# @package _global_": its keys start at the root
};

// Takes the value of `key` out of `map`; null when there is none.
Node taken_from(Node& map, std::string_view key) {
  const auto found = std::find(map.keys.begin(), map.keys.end(), key);
  if (found == map.keys.end()) return {};
  const auto at = found - map.keys.begin();
  Node value = std::move(map.items[static_cast<size_t>(at)]);
  map.keys.erase(found);
  map.items.erase(map.items.begin() + at);
  return value;
}

Result<Parsed> parse_source(const Source& source) {
  Parsed parsed;
  parsed.body = FB_TRY(workload::parse_document(source.yaml, source.document.label));
  if (parsed.body.kind == Node::Kind::kNull) parsed.body.kind = Node::Kind::kMap;
  if (parsed.body.kind != Node::Kind::kMap)
    return fail(ErrorCode::kInvalidArgument, "{}: sections such as 'dataset:' are expected",
                source.document.label);
  parsed.defaults = taken_from(parsed.body, "defaults");
  for (const std::string_view line : base::split(source.yaml, '\n')) {
    if (!line.starts_with('#')) break;
    const size_t word = line.find("@package");
    if (word == std::string_view::npos) continue;
    const std::string_view package = base::trim(line.substr(word + 8));
    if (package != "_global_" && package != "_group_" && package != "workload")
      return fail(ErrorCode::kUnsupported, "{}: '@package {}' is not done; _global_ is",
                  source.document.label, package);
    parsed.is_global = package == "_global_";
  }
  return parsed;
}

class Composer {
 public:
  Composer(const DlioCommandLine& line, int64_t now_us) : line_(line), now_us_(now_us) {}

  Result<DlioConfig> run() {
    FB_TRY(set_up());
    FB_TRY(take_groups_and_hydra());
    FB_TRY(lay_files());
    FB_TRY(apply_overrides());
    FB_TRY(finish());
    return std::move(made_);
  }

 private:
  Status set_up() {
    Result<Node> defaults = workload::parse_document(kHydraDefaults, "hydra");
    FB_CHECK(defaults.ok());
    made_.hydra = std::move(defaults).take();
    make_in(made_.hydra, "run.dir") = text_node(std::string(kDefaultRunDir));
    FB_TRY(add_folder("--config-dir", line_.config_dir));
    FB_TRY(add_folder("--config-path", line_.config_path));
    return read_primary();
  }

  Status add_folder(std::string_view option, const std::string& folder) {
    if (folder.empty()) return {};
    sys::FileStatus status;
    if (sys::status_at(sys::kCurrentFolder, folder, status) != 0 || !status.is_folder)
      return fail(ErrorCode::kInvalidArgument, "{}: there is no folder '{}'", option, folder);
    folders_.push_back(folder);
    return {};
  }

  // DLIO's own config.yaml, which says workload: default, or the user's.
  Status read_primary() {
    const std::string name = line_.config_name + ".yaml";
    const bool is_asked = line_.config_name != "config";
    std::string path;
    if (!line_.config_path.empty()) path = line_.config_path + "/" + name;
    if (path.empty() && is_asked && !line_.config_dir.empty()) path = line_.config_dir + "/" + name;
    made_.workload = "default";
    if (path.empty() && is_asked)
      return fail(ErrorCode::kInvalidArgument,
                  "--config-name {}: give the folder that holds {} with --config-path",
                  line_.config_name, name);
    make_in(made_.hydra, "job.config_name") = text_node(line_.config_name);
    if (path.empty()) return {};
    const std::string yaml = FB_TRY(read_text(path));
    primary_ = FB_TRY(parse_source({yaml, {path, "file " + path}}));
    primary_document_ = {path, "file " + path};
    has_primary_ = true;
    return read_primary_defaults();
  }

  Status read_primary_defaults() {
    made_.workload.clear();
    is_primary_last_ = true;
    for (const Node& entry : primary_.defaults.items) {
      if (entry.kind == Node::Kind::kScalar && entry.text == "_self_") {
        is_primary_last_ = !made_.workload.empty();
        continue;
      }
      const std::string key = entry.kind == Node::Kind::kMap && entry.keys.size() == 1
                                  ? entry.keys[0]
                                  : entry.flow_text();
      if (key == "workload" || key == "override workload") {
        made_.workload = entry.items[0].text;
        continue;
      }
      if (key.find("hydra/") != std::string::npos) continue;  // looks of logs and help
      return fail(ErrorCode::kUnsupported, "{}:{}: defaults: '{}' is not done; workload is",
                  primary_document_.label, entry.line, key);
    }
    // "- workload:" without a name, and _self_ before it.
    const auto& items = primary_.defaults.items;
    if (!items.empty() && items[0].text == "_self_") is_primary_last_ = false;
    const Node* settings = find_in(primary_.body, "hydra");
    if (settings == nullptr) return {};
    FB_TRY(take_hydra_map(*settings, "", primary_document_.label));
    return {};
  }

  Status take_hydra_map(const Node& map, const std::string& path, const std::string& place) {
    if (map.kind != Node::Kind::kMap) return set_hydra(path, map, place, false);
    for (size_t i = 0; i < map.keys.size(); ++i)
      FB_TRY(take_hydra_map(map.items[i], path.empty() ? map.keys[i] : path + "." + map.keys[i],
                            place));
    return {};
  }

  // workload=NAME, hydra.KEY=VALUE and hydra/GROUP=NAME; the rest waits for the files.
  Status take_groups_and_hydra() {
    for (const DlioOverride& override : line_.overrides) {
      if (override.key == "workload") {
        FB_TRY(choose(override));
      } else if (override.key.starts_with("hydra.")) {
        FB_TRY(set_hydra(override.key.substr(6), override.value, "'" + override.text + "'",
                         override.kind == Kind::kDelete));
        hydra_overrides_.push_back(override.text);
        continue;
      } else if (override.key.find('/') != std::string::npos) {
        FB_TRY(choose_group(override));
        hydra_overrides_.push_back(override.text);
        continue;
      }
      made_.task_overrides.push_back(override.text);
    }
    if (made_.workload.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "which workload? Give workload=NAME (dlio_benchmark --help lists the built-in "
                  "ones)");
    return {};
  }

  Status choose(const DlioOverride& override) {
    const auto refuse = [&](std::string_view why) {
      return fail(ErrorCode::kInvalidArgument, "'{}': {}", override.text, why);
    };
    if (override.kind == Kind::kDelete) return refuse("without a workload there is nothing to run");
    if (override.kind != Kind::kChange)
      return refuse("a workload is chosen without '+': workload=NAME");
    if (override.value.kind != Node::Kind::kScalar || override.value.text.empty())
      return refuse("must be workload=NAME");
    made_.workload = override.value.text;
    if (made_.workload.ends_with(".yaml")) made_.workload.resize(made_.workload.size() - 5);
    return {};
  }

  Status choose_group(const DlioOverride& override) {
    static constexpr std::array<std::string_view, 5> kLooks{"hydra/job_logging",
                                                            "hydra/hydra_logging", "hydra/help",
                                                            "hydra/hydra_help", "hydra/output"};
    if (std::find(kLooks.begin(), kLooks.end(), override.key) != kLooks.end()) {
      made_.warnings.push_back(
          fmt::format("'{}' has no effect: Hydra itself is not used", override.text));
      return {};
    }
    return fail(ErrorCode::kUnsupported,
                "'{}': the only group of configurations is workload: workload=NAME", override.text);
  }

  // One of Hydra's own settings, by its path below "hydra".
  Status set_hydra(const std::string& key, const Node& value, const std::string& place,
                   bool is_removal) {
    const bool is_open = key.starts_with("job_logging") || key.starts_with("hydra_logging") ||
                         key.starts_with("env.") || key.starts_with("callbacks.") ||
                         key.starts_with("sweep") || key.starts_with("help") ||
                         key.starts_with("launcher");
    if (!is_open && (key.starts_with("overrides") || key.starts_with("runtime") ||
                     find_in(made_.hydra, key) == nullptr)) {
      const std::string nearest = nearest_path(made_.hydra, key);
      return fail(ErrorCode::kInvalidArgument, "{}: there is no setting 'hydra.{}'{}", place, key,
                  nearest.empty() ? "" : fmt::format("; did you mean 'hydra.{}'?", nearest));
    }
    if (is_removal)
      return fail(ErrorCode::kInvalidArgument, "{}: Hydra's settings cannot be removed", place);
    if (key == "mode" && base::to_lower(value.text) != "run")
      return fail(ErrorCode::kUnsupported, "{}: only RUN is done: one run at a time", place);
    const bool is_off = value.kind == Node::Kind::kNull || base::to_lower(value.text) == "false";
    if (key == "job.chdir" && !is_off)
      return fail(ErrorCode::kUnsupported,
                  "{}: the working folder stays what it is; change it before the start", place);
    if (key == "run.dir" && value.kind == Node::Kind::kScalar && value.text.empty())
      return fail(ErrorCode::kInvalidArgument, "{}: needs a folder, not ''", place);
    if (key == "run" || key == "job" || key == "overrides")
      return fail(ErrorCode::kInvalidArgument, "{}: set its keys one by one", place);
    static constexpr std::array<std::string_view, 6> kEffective{
        "run.dir", "output_subdir", "searchpath", "mode", "job.name", "job.chdir"};
    const bool is_effective =
        std::find(kEffective.begin(), kEffective.end(), key) != kEffective.end();
    if (!is_effective && !(key == "verbose" && is_off))
      made_.warnings.push_back(
          fmt::format("{}: 'hydra.{}' has no effect: Hydra itself is not used", place, key));
    make_in(made_.hydra, key) = value;
    return {};
  }

  Status lay_files() {
    FB_TRY(add_search_path());
    if (has_primary_ && !is_primary_last_) FB_TRY(lay_primary());
    FB_TRY(lay_workload(made_.workload, 0));
    if (has_primary_ && is_primary_last_) FB_TRY(lay_primary());
    return {};
  }

  Status add_search_path() {
    const Node* path = find_in(made_.hydra, "searchpath");
    for (const Node& item : path->items) {
      std::string folder = item.text;
      if (folder.starts_with("file://")) folder.erase(0, 7);
      if (folder.starts_with("pkg://"))
        return fail(ErrorCode::kUnsupported,
                    "hydra.searchpath: '{}': only folders are done, not Python packages", folder);
      folders_.push_back(folder);
    }
    return {};
  }

  Status lay_primary() {
    Node body = primary_.body;
    taken_from(body, "hydra");
    made_.sources.push_back(primary_document_.label);
    documents_.push_back(primary_document_);
    return tree_.lay("", body, static_cast<int>(documents_.size()) - 1);
  }

  Result<Source> find_workload(const std::string& name) {
    for (const std::string& folder : folders_) {
      for (const char* ending : {".yaml", ".yml"}) {
        const std::string path = fmt::format("{}/workload/{}{}", folder, name, ending);
        if (!sys::path_exists(path)) continue;
        std::string yaml = FB_TRY(read_text(path));
        return Source{std::move(yaml), {path, "file " + path}};
      }
    }
    std::vector<std::string_view> names;
    for (const workload::BuiltinYaml& builtin : workload::builtin_yaml()) {
      names.push_back(builtin.name);
      if (builtin.name == name) {
        const std::string label = "built-in " + name;
        return Source{std::string(builtin.yaml), {label, label, false}};
      }
    }
    return fail(
        ErrorCode::kInvalidArgument, "{}{}", base::unknown_name_message("workload", name, names),
        folders_.empty()
            ? "; --config-dir=DIR adds those of DIR/workload"
            : fmt::format(", nor a file workload/{}.yaml in {}", name, fmt::join(folders_, ", ")));
  }

  // The file of that name, after or before those that its defaults list names.
  Status lay_workload(const std::string& name, int depth) {
    const Source source = FB_TRY(find_workload(name));
    Parsed parsed = FB_TRY(parse_source(source));
    // As `forebay run` reads it; laid by its words alone it would be workload.workload.
    const Node* own = parsed.is_global ? nullptr : find_in(parsed.body, "workload");
    if (own != nullptr && own->kind == Node::Kind::kMap)
      parsed.wrapped = taken_from(parsed.body, "workload");
    if (depth > kIncludesMax)
      return fail(ErrorCode::kInvalidArgument, "{}: its defaults lead back to itself",
                  source.document.label);
    bool is_laid = false;
    for (const Node& entry : parsed.defaults.items) {
      if (entry.kind != Node::Kind::kScalar)
        return fail(ErrorCode::kUnsupported,
                    "{}:{}: defaults: only names of other workloads are done, not '{}'",
                    source.document.label, entry.line, entry.flow_text());
      if (entry.text == "_self_") {
        FB_TRY(lay_body(source, parsed));
        is_laid = true;
        continue;
      }
      std::string other = entry.text;
      if (other.starts_with("/workload/")) other.erase(0, 10);
      if (other.ends_with(".yaml")) other.resize(other.size() - 5);
      FB_TRY(lay_workload(other, depth + 1));
    }
    return is_laid ? Status() : lay_body(source, parsed);
  }

  Status lay_body(const Source& source, const Parsed& parsed) {
    made_.sources.push_back(source.document.label);
    documents_.push_back(source.document);
    const int document = static_cast<int>(documents_.size()) - 1;
    FB_TRY(tree_.lay(parsed.is_global ? "" : "workload", parsed.body, document)
               .context(source.document.label));
    if (parsed.wrapped.kind == Node::Kind::kNull) return {};
    return tree_.lay("workload", parsed.wrapped, document).context(source.document.label);
  }

  Status apply_overrides() {
    size_t number = 0;
    for (const DlioOverride& override : line_.overrides) {
      ++number;
      const bool is_done = override.key == "workload" || override.key.starts_with("hydra.") ||
                           override.key.find('/') != std::string::npos;
      if (!is_done) FB_TRY(apply(override, number));
    }
    return {};
  }

  // What was meant by a key that begins with neither "workload" nor "hydra": one of them misspelt,
  // or left out.
  std::string with_right_start(const DlioOverride& override, const std::string& top) const {
    static constexpr std::array<std::string_view, 2> kStarts{"workload", "hydra"};
    const bool is_section = find_in(tree_.root(), "workload." + top) != nullptr;
    const std::string start = is_section ? "" : base::nearest_name(top, kStarts);
    if (start.empty()) return "workload." + override.key;
    const std::string assignment = override.text.substr(override.text.find_first_not_of("+~"));
    return top == override.key ? start + assignment.substr(top.size())
                               : start + override.key.substr(top.size());
  }

  Status apply(const DlioOverride& override, size_t number) {
    const Node* there = find_in(tree_.root(), override.key);
    const auto refuse = [&](const std::string& why) {
      return fail(ErrorCode::kInvalidArgument, "'{}': {}", override.text, why);
    };
    const auto missing = [&] {
      const std::string nearest = nearest_path(tree_.root(), override.key);
      return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
    };
    const std::string top = override.key.substr(0, override.key.find('.'));
    if (top != "workload")
      return refuse(fmt::format("keys begin with 'workload.' or 'hydra.'; did you mean '{}'?",
                                with_right_start(override, top)));
    if (override.kind == Kind::kDelete) {
      if (there == nullptr) return refuse("there is no such key to remove" + missing());
      if (override.has_value && !is_same(*there, override.value))
        return refuse("its value is " +
                      (workload::is_secret_path(override.key) ? "***" : there->flow_text()));
      tree_.remove(override.key);
      return {};
    }
    const std::string assignment = override.text.substr(override.text.find_first_not_of('+'));
    if (override.kind == Kind::kChange && !is_inside(there, override.value))
      return refuse(fmt::format("{} does not set this key; to add it: ++{}{}", made_.workload,
                                assignment, missing()));
    if (override.kind == Kind::kAdd && there != nullptr && there->kind != Node::Kind::kMap)
      return refuse(
          fmt::format("{} sets this key already; to change it: ++{}", made_.workload, assignment));
    documents_.push_back({fmt::format("override {} '{}'", number, override.text),
                          fmt::format("override {}", number), false});
    return tree_.lay(override.key, override.value, static_cast<int>(documents_.size()) - 1)
        .context("'" + override.text + "'");
  }

  // Whether every key of `value` is there already.
  static bool is_inside(const Node* there, const Node& value) {
    if (there == nullptr) return false;
    if (value.kind != Node::Kind::kMap || there->kind != Node::Kind::kMap) return true;
    for (size_t i = 0; i < value.keys.size(); ++i)
      if (!is_inside(find_in(*there, value.keys[i]), value.items[i])) return false;
    return true;
  }

  static bool is_same(const Node& a, const Node& b) { return dlio_yaml(a) == dlio_yaml(b); }

  Status finish() {
    made_.root = tree_.root();
    note_run();
    const InterpolationScope scope{made_.root, made_.hydra, now_us_};
    FB_TRY(find_run_dir(scope));
    const Node subdir = FB_TRY(interpolated(scope, "hydra.output_subdir"));
    made_.output_subdir = subdir.kind == Node::Kind::kNull ? "" : subdir.text;
    made_.resolved = FB_TRY(interpolated(scope, ""));
    make_layers();
    // The layers alone hold secrets: everything else here is shown or written beside the results.
    workload::hide_secrets(made_.root);
    workload::hide_secrets(made_.resolved);
    workload::hide_secrets(made_.hydra);
    return {};
  }

  // run.dir names a model unless the workload has none; the default one then takes its name.
  Status find_run_dir(const InterpolationScope& scope) {
    Node& dir = make_in(made_.hydra, "run.dir");
    const Node* model = find_in(made_.root, "workload.model");
    if (dir.text == kDefaultRunDir && find_in(made_.root, "workload.model.name") == nullptr) {
      const std::string name =
          model != nullptr && model->kind == Node::Kind::kScalar ? model->text : made_.workload;
      dir.text.replace(dir.text.find("${workload.model.name}"), 22, name);
    }
    const Node resolved = FB_TRY(interpolated(scope, "hydra.run.dir"));
    made_.run_dir = resolved.text;
    if (resolved.kind != Node::Kind::kScalar || made_.run_dir.empty())
      return fail(ErrorCode::kInvalidArgument, "hydra.run.dir must be a folder, not {}",
                  resolved.flow_text());
    while (made_.run_dir.size() > 1 && made_.run_dir.ends_with('/')) made_.run_dir.pop_back();
    dir.text = made_.run_dir;
    const bool is_absolute = made_.run_dir.starts_with('/');
    make_in(made_.hydra, "runtime.output_dir") =
        text_node(is_absolute ? made_.run_dir : sys::current_folder() + "/" + made_.run_dir);
    return {};
  }

  void note_run() {
    Node& hydra = made_.hydra;
    hydra_overrides_.emplace_back("hydra.mode=RUN");
    make_in(hydra, "overrides.hydra") = list_node(hydra_overrides_);
    make_in(hydra, "overrides.task") = list_node(made_.task_overrides);
    std::vector<std::string> sorted = made_.task_overrides;
    std::sort(sorted.begin(), sorted.end());
    make_in(hydra, "job.override_dirname") = text_node(fmt::format("{}", fmt::join(sorted, ",")));
    make_in(hydra, "runtime.version") = text_node(fmt::format("Forebay {}", kVersion));
    make_in(hydra, "runtime.cwd") = text_node(sys::current_folder());
    Node& sources = make_in(hydra, "runtime.config_sources");
    sources.kind = Node::Kind::kList;
    for (const std::string& folder : folders_) {
      Node source;
      source.kind = Node::Kind::kMap;
      make_in(source, "path") = text_node(folder);
      make_in(source, "schema") = text_node("file");
      make_in(source, "provider") =
          text_node(folder == line_.config_path ? "main" : "command-line");
      sources.items.push_back(std::move(source));
    }
    make_in(hydra, "runtime.choices.workload") = text_node(made_.workload);
  }

  // Each value of the resolved tree goes to the layer of the document that it came from. The value
  // of one key is one thing, of whoever touched it last, also where it is a map.
  void make_layers() {
    for (const workload::KeyInfo& key : workload::schema())
      whole_.insert("workload." + std::string(key.key));
    made_.layers.resize(documents_.size());
    for (size_t i = 0; i < documents_.size(); ++i) {
      Node& root = made_.layers[i].root;
      root.kind = Node::Kind::kMap;
      make_in(root, "workload").kind = Node::Kind::kMap;
      made_.layers[i].label = documents_[i].label;
      made_.layers[i].origin = documents_[i].origin;
      made_.layers[i].has_lines = documents_[i].has_lines;
    }
    give_to_layers(made_.resolved, "");
  }

  void give_to_layers(const Node& node, const std::string& path) {
    const bool is_branch = node.kind == Node::Kind::kMap && !node.items.empty();
    if (is_branch && !whole_.contains(path)) {
      for (size_t i = 0; i < node.keys.size(); ++i)
        give_to_layers(node.items[i], path.empty() ? node.keys[i] : path + "." + node.keys[i]);
      return;
    }
    const int document = last_document(node, path);
    if (document >= 0) make_in(made_.layers[static_cast<size_t>(document)].root, path) = node;
  }

  int last_document(const Node& node, const std::string& path) const {
    int document = tree_.document_of(path);
    for (size_t i = 0; i < node.keys.size(); ++i)
      document = std::max(document, last_document(node.items[i], path + "." + node.keys[i]));
    return document;
  }

  const DlioCommandLine& line_;
  const int64_t now_us_;
  DlioConfig made_;
  DlioTree tree_;
  std::vector<Document> documents_;
  std::vector<std::string> folders_;  // that hold workload/NAME.yaml
  std::vector<std::string> hydra_overrides_;
  std::set<std::string> whole_;  // paths whose value is not taken apart
  Parsed primary_;
  Document primary_document_;
  bool has_primary_ = false, is_primary_last_ = true;
};

}  // namespace

Result<DlioConfig> compose_dlio_config(const DlioCommandLine& line, int64_t now_us) {
  return Composer(line, now_us).run();
}

}  // namespace forebay::cli
