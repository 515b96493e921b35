#include "formats/hdf5_library.h"

#include "base/error.h"

namespace forebay::formats {
namespace {

base::Mutex& library_mutex() {
  static base::Mutex mutex;
  return mutex;
}

herr_t take_innermost(unsigned /*n*/, const H5E_error2_t* error, void* message) {
  auto& text = *static_cast<std::string*>(message);
  if (text.empty() && error->desc != nullptr) text = error->desc;
  return 0;
}

}  // namespace

Hdf5Lock::Hdf5Lock() FB_NO_THREAD_SAFETY_ANALYSIS {
  library_mutex().lock();
  // Errors are printed by the thread that meets them, unless told otherwise in that thread.
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Lock::~Hdf5Lock() FB_NO_THREAD_SAFETY_ANALYSIS {
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
  library_mutex().unlock();
}

Error hdf5_error(ErrorCode code, std::string_view what) {
  std::string message;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &message);
  H5Eclear2(H5E_DEFAULT);
  if (message.empty()) message = "the HDF5 library gives no reason";
  return fail(code, "{}: {}", what, message);
}

}  // namespace forebay::formats
