#include "record/collector.h"

namespace forebay::record {

Status Collector::prepare(Target& /*target*/) {
  return {};
}

}  // namespace forebay::record
