#include "loader/read_trace.h"

#include "trace/recorder.h"

namespace forebay::loader {

ReadTrace::ReadTrace(trace::Recorder* recorder, const std::string& engine) : recorder_(recorder) {
  if (recorder_ == nullptr) return;
  track_ = recorder_->track(trace::TrackKind::kStream, engine + " reads");
  read_ = recorder_->name("read", trace::Category::kRead);
  bytes_ = recorder_->key(trace::key::kBytes);
  path_ = recorder_->key(trace::key::kFile, trace::ArgumentType::kText);
  prepare_ = recorder_->key(trace::key::kPrepareNs);
}

void ReadTrace::add(const dataset::Catalog& catalog, uint32_t file,
                    const storage::Completion& completion) {
  if (recorder_ == nullptr) return;
  if (paths_.size() <= file) paths_.resize(catalog.file_count());
  if (paths_[file] == 0) paths_[file] = recorder_->text(catalog.path(file));
  recorder_->span(track_, read_, completion.started_ns, completion.ended_ns,
                  {{bytes_, static_cast<int64_t>(completion.bytes)},
                   {path_, paths_[file]},
                   {prepare_, completion.visit_ns}});
}

}  // namespace forebay::loader
