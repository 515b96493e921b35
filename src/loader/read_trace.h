// Puts each read of an engine into a trace: one track for each engine, whose spans overlap. Private
// to the loader.
//
// The issuing thread's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/catalog.h"
#include "storage/store.h"
#include "trace/model.h"

namespace forebay::trace {
class Recorder;
}

namespace forebay::loader {

class ReadTrace {
 public:
  // Does nothing when `recorder` is null. `engine` is the engine's name: "reader 0".
  ReadTrace(trace::Recorder* recorder, const std::string& engine);

  void add(const dataset::Catalog& catalog, uint32_t file, const storage::Completion& completion);

 private:
  trace::Recorder* recorder_;
  trace::TrackId track_ = 0;
  trace::NameId read_ = 0;
  trace::KeyId bytes_ = 0, path_ = 0, prepare_ = 0;
  std::vector<trace::TextId> paths_;  // by file; 0 = not yet asked for
};

}  // namespace forebay::loader
