// The ops there are, one constant each; builtin_ops.cc lists them.
#pragma once

#include <memory>

#include "ops/step.h"

namespace forebay::ops {

extern const OpKind kCast, kCenterCrop, kColourJitter, kDecodeImage, kDrop, kFlip, kLayout,
    kNormalize, kOneHot, kPad, kParseJson, kRagged, kRandomCrop, kRandomResizedCrop, kRename,
    kResize, kSelect, kTokens;

// What no ops at all mean: images are decoded, all else is handed on.
std::unique_ptr<Step> make_decode_all(const DecodeOptions& decode);

}  // namespace forebay::ops
