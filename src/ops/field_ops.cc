// Ops on fields as a whole: rename, select, drop, ragged.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/builtin_ops.h"

namespace forebay::ops {
namespace {

class Rename : public Step {
 public:
  explicit Rename(const Arguments& arguments)
      : from_(arguments.texts("from")), to_(arguments.texts("to")) {}
  Status run(SampleState& state) const override {
    // All at once, so that two can change places.
    std::vector<Value*> values;
    for (const std::string& name : from_) values.push_back(FB_TRY(state.get(name)));
    for (size_t i = 0; i < values.size(); ++i) values[i]->name = to_[i];
    for (const std::string& name : to_) {
      const auto& all = state.values();
      if (std::count_if(all.begin(), all.end(),
                        [&](const Value& value) { return value.name == name; }) > 1)
        return fail(ErrorCode::kInvalidArgument, "there is a field '{}' already", name);
    }
    return {};
  }

 private:
  std::vector<std::string> from_, to_;
};

constexpr std::array kRenameArguments{OpArgument{"from", "texts", "", "names of fields"},
                                      OpArgument{"to", "texts", "", "as many new names"}};

bool has_twins(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) != names.end();
}

Result<std::unique_ptr<Step>> make_rename(const Arguments& arguments, const DecodeOptions&) {
  const auto& from = arguments.texts("from");
  const auto& to = arguments.texts("to");
  if (from.empty() || from.size() != to.size())
    return fail(ErrorCode::kInvalidArgument, "{} names become {}", from.size(), to.size());
  if (has_twins(from) || has_twins(to) || std::find(to.begin(), to.end(), "") != to.end())
    return fail(ErrorCode::kInvalidArgument, "a name is empty or given twice");
  return make_step<Rename>(arguments);
}

class Select : public Step {
 public:
  explicit Select(const Arguments& arguments) : fields_(arguments.texts("fields")) {}
  Status run(SampleState& state) const override {
    std::vector<Value> kept;
    for (const std::string& name : fields_) {
      Value* value = FB_TRY(state.get(name));
      kept.push_back(std::move(*value));
      value->name = {};
      kept.back().name = name;
    }
    state.values() = std::move(kept);
    return {};
  }

 private:
  std::vector<std::string> fields_;
};

constexpr std::array kSelectArguments{
    OpArgument{"fields", "texts", "", "those that remain, in this order; each must be there"}};

Result<std::unique_ptr<Step>> make_select(const Arguments& arguments, const DecodeOptions&) {
  const auto& fields = arguments.texts("fields");
  if (fields.empty() || has_twins(fields))
    return fail(ErrorCode::kInvalidArgument, "fields: none, or one twice");
  return make_step<Select>(arguments);
}

class Drop : public Step {
 public:
  explicit Drop(const Arguments& arguments) : fields_(arguments.texts("fields")) {}
  Status run(SampleState& state) const override {
    auto& values = state.values();
    for (const std::string& name : fields_)
      values.erase(std::remove_if(values.begin(), values.end(),
                                  [&](const Value& value) { return value.name == name; }),
                   values.end());
    return {};
  }

 private:
  std::vector<std::string> fields_;
};

constexpr std::array kDropArguments{
    OpArgument{"fields", "texts", "", "those that go, where they are there"}};

Result<std::unique_ptr<Step>> make_drop(const Arguments& arguments, const DecodeOptions&) {
  if (arguments.texts("fields").empty()) return fail(ErrorCode::kInvalidArgument, "fields: none");
  return make_step<Drop>(arguments);
}

class Ragged : public Step {
 public:
  explicit Ragged(const Arguments& arguments) : fields_(arguments.texts("fields")) {}
  Status run(SampleState& /*state*/) const override { return {}; }
  Status check_end(SampleState& state) const override {
    for (const std::string& name : fields_) FB_TRY(state.get(name));
    return {};
  }
  void note_ragged(std::set<std::string, std::less<>>& fields) const override {
    fields.insert(fields_.begin(), fields_.end());
  }

 private:
  std::vector<std::string> fields_;
};

constexpr std::array kRaggedArguments{OpArgument{
    "fields", "texts", "",
    "by their names at the end of the list; each is one array per sample, never stacked"}};

Result<std::unique_ptr<Step>> make_ragged(const Arguments& arguments, const DecodeOptions&) {
  if (arguments.texts("fields").empty()) return fail(ErrorCode::kInvalidArgument, "fields: none");
  return make_step<Ragged>(arguments);
}

}  // namespace

const OpKind kRename{.info = {"rename", "Other names for fields.", kRenameArguments},
                     .make = make_rename};
const OpKind kSelect{.info = {"select", "Only some fields.", kSelectArguments},
                     .make = make_select};
const OpKind kDrop{.info = {"drop", "All fields but some.", kDropArguments}, .make = make_drop};
const OpKind kRagged{
    .info = {"ragged", "Fields whose shape may differ from sample to sample.", kRaggedArguments},
    .make = make_ragged};

}  // namespace forebay::ops
