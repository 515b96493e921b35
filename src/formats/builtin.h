// The formats of this room, one constant per file. builtin.cc lists them.
#pragma once

#include "formats/format.h"

namespace forebay::formats {

extern const Format kCsv;
extern const Format kHdf5;
extern const Format kIndexedBinary;
extern const Format kJpeg;
extern const Format kLines;
extern const Format kMmapIndexedBinary;
extern const Format kNpy;
extern const Format kNpz;
extern const Format kParquet;
extern const Format kPng;
extern const Format kRaw;
extern const Format kSynthetic;
extern const Format kTfrecord;
extern const Format kTokens;
extern const Format kWebdataset;

}  // namespace forebay::formats
