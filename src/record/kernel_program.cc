#include "record/kernel_program.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "sys/file.h"
#include "sys/memory.h"

namespace forebay::record {

namespace {

struct CloseObject {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};
struct FreeRing {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};
struct DestroyLink {
  void operator()(bpf_link* link) const { bpf_link__destroy(link); }
};
struct FreeTypes {
  void operator()(btf* types) const { btf__free(types); }
};
using Object = std::unique_ptr<bpf_object, CloseObject>;
using Types = std::unique_ptr<btf, FreeTypes>;

// What the kernel says of a tracepoint: how many arguments its programs get, 0 = there is none.
int argument_count(const btf* kernel, const std::string& tracepoint) {
  const int id =
      btf__find_by_name_kind(kernel, ("btf_trace_" + tracepoint).c_str(), BTF_KIND_TYPEDEF);
  if (id < 0) return 0;
  const btf_type* type = btf__type_by_id(kernel, static_cast<uint32_t>(id));
  if (type != nullptr) type = btf__type_by_id(kernel, type->type);  // the pointer
  if (type != nullptr) type = btf__type_by_id(kernel, type->type);  // the function
  return type == nullptr ? 0 : btf_vlen(type);
}

// The fewest and the most arguments (a first one of the kernel's own included) that a program
// takes; the tracepoints not named here never changed in what the program reads.
bool has_its_form(const std::string& program, int arguments) {
  if (arguments == 0) return false;
  if (program == "on_switch") return arguments >= 5;       // the state before: Linux 5.18
  if (program == "on_request_end") return arguments == 4;  // the entry as one struct: Linux 6.12
  if (program == "on_request_end_old") return arguments >= 6;
  if (program == "on_complete") return arguments >= 4;
  return true;
}

// Programs without which nothing is worth recording.
bool is_needed(const std::string& program) {
  return program == "on_call" || program == "on_switch" || program == "on_return" ||
         program == "on_fork" || program == "on_exec" || program == "on_end" ||
         program == "on_task";
}

Error refused(int error, std::string_view what) {
  return fail(ErrorCode::kUnsupported, "{}: {}", what, std::strerror(error < 0 ? -error : error));
}

Result<Types> kernel_types() {
  Types types(btf__load_vmlinux_btf());
  if (!types) return fail(ErrorCode::kUnsupported, "this kernel does not describe its types (BTF)");
  return types;
}

Result<Object> open_program() {
  libbpf_set_print(nullptr);  // it would write to standard error
  const std::span<const std::byte> bytes = io_program_bytes();
  if (bytes.empty()) return fail(ErrorCode::kUnsupported, "built without clang, so without eBPF");
  bpf_object_open_opts options{};
  options.sz = sizeof(options);
  options.object_name = "forebay_io";
  Object object(bpf_object__open_mem(bytes.data(), bytes.size(), &options));
  if (!object) return refused(errno, "the program could not be opened");
  return object;
}

std::string tracepoint_of(const bpf_program* program) {
  const std::string section = bpf_program__section_name(program);
  const size_t slash = section.find('/');
  return section.starts_with("tp_btf/") ? section.substr(slash + 1) : std::string();
}

// Switches off what this kernel lacks; the names of those.
Result<std::vector<std::string>> leave_out(bpf_object* object, const btf* kernel) {
  std::vector<std::string> left_out;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    const std::string name = bpf_program__name(program);
    const std::string tracepoint = tracepoint_of(program);
    if (tracepoint.empty() || has_its_form(name, argument_count(kernel, tracepoint))) continue;
    if (is_needed(name)) {
      return fail(ErrorCode::kUnsupported, "this kernel has no tracepoint {}", tracepoint);
    }
    bpf_program__set_autoload(program, false);
    if (!name.ends_with("_old") && argument_count(kernel, "io_uring_complete") < 6) {
      left_out.push_back(name);
    }
  }
  return left_out;
}

}  // namespace

struct KernelProgram::Impl {
  Object object;
  std::unique_ptr<ring_buffer, FreeRing> ring;
  std::vector<std::unique_ptr<bpf_link, DestroyLink>> links;
  std::vector<std::string> left_out;
  sys::SharedMemory shared;
  IoControl* control = nullptr;  // in it
  size_t ring_bytes = 0;
  std::vector<std::pair<uint64_t, IoCount>> counts;  // not handed out yet
  uint64_t seen = 0;
  const std::function<void(std::span<const std::byte>)>* take = nullptr;

  int map(const char* name) const { return bpf_object__find_map_fd_by_name(object.get(), name); }
  bpf_program* program(const char* name) const {
    return bpf_object__find_program_by_name(object.get(), name);
  }
  // Runs a program once for each thread of the system.
  Status iterate(const char* name);
  Status mark(std::span<const int> pids, uint32_t what);
};

KernelProgram::KernelProgram(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelProgram::~KernelProgram() = default;

namespace {

// Loaded with a ring of that size, or the kernel's refusal (negative).
Result<int> load_object(bpf_object* object, const IoSettings& settings, size_t ring_bytes) {
  bpf_map* const rodata = bpf_object__find_map_by_name(object, ".rodata");
  bpf_map* const ring = bpf_object__find_map_by_name(object, "events");
  if (rodata == nullptr || ring == nullptr ||
      bpf_map__set_initial_value(rodata, &settings, sizeof(settings)) != 0) {
    return fail(ErrorCode::kUnsupported, "the program is not as this build expects it");
  }
  bpf_map__set_max_entries(ring, static_cast<uint32_t>(ring_bytes));
  return bpf_object__load(object);
}

}  // namespace

Result<std::unique_ptr<KernelProgram>> KernelProgram::load(const IoSettings& settings,
                                                           size_t ring_bytes_max) {
  const Types kernel = FB_TRY(kernel_types());
  auto impl = std::make_unique<Impl>();
  int error = -ENOMEM;
  for (size_t bytes = ring_bytes_max; bytes >= (1 << 18) && error != 0; bytes /= 2) {
    impl->object = FB_TRY(open_program());
    impl->left_out = FB_TRY(leave_out(impl->object.get(), kernel.get()));
    error = FB_TRY(load_object(impl->object.get(), settings, bytes));
    if (error != 0 && error != -ENOMEM && error != -EPERM) break;
    impl->ring_bytes = bytes;
  }
  if (error != 0) return refused(error, "the kernel refused the program");
  const bpf_map* const bss = bpf_object__find_map_by_name(impl->object.get(), ".bss");
  if (bss == nullptr || bpf_map__value_size(bss) < sizeof(IoControl)) {
    return fail(ErrorCode::kUnsupported, "the program is not as this build expects it");
  }
  impl->shared = FB_TRY(sys::SharedMemory::map(bpf_map__fd(bss), sizeof(IoControl)));
  impl->control = reinterpret_cast<IoControl*>(impl->shared.data());
  const auto give = [](void* context, void* data, size_t size) {
    (*static_cast<Impl*>(context)->take)({static_cast<const std::byte*>(data), size});
    return 0;
  };
  impl->ring.reset(ring_buffer__new(impl->map("events"), give, impl.get(), nullptr));
  if (!impl->ring) return refused(errno, "the ring could not be mapped");
  return std::unique_ptr<KernelProgram>(new KernelProgram(std::move(impl)));
}

// Loading the whole program takes a hundred milliseconds; what can be refused to a caller is
// refused to the smallest program too.
Status KernelProgram::try_load() {
  libbpf_set_print(nullptr);  // it would write to standard error
  if (io_program_bytes().empty())
    return fail(ErrorCode::kUnsupported, "built without clang, so without eBPF");
  constexpr std::array<bpf_insn, 2> kReturnZero{{
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  }};
  const sys::ScopedFd program(bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "forebay_probe", "GPL",
                                            kReturnZero.data(), kReturnZero.size(), nullptr));
  if (!program.is_open()) return refused(program.get(), "the kernel refused the program");
  if (!sys::file_status(sys::kCurrentFolder, "/sys/kernel/btf/vmlinux").ok())
    FB_TRY(kernel_types());
  return {};
}

Status KernelProgram::attach() {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, impl_->object.get()) {
    if (tracepoint_of(program).empty() || !bpf_program__autoload(program)) continue;
    bpf_link* const link = bpf_program__attach(program);
    if (link != nullptr) {
      impl_->links.emplace_back(link);
      continue;
    }
    const int error = errno;
    const std::string name = bpf_program__name(program);
    if (is_needed(name)) return refused(error, tracepoint_of(program));
    impl_->left_out.push_back(name);
  }
  return {};
}

void KernelProgram::detach() {
  impl_->links.clear();
}

const std::vector<std::string>& KernelProgram::left_out() const {
  return impl_->left_out;
}

Status KernelProgram::Impl::iterate(const char* name) {
  const std::unique_ptr<bpf_link, DestroyLink> link(
      bpf_program__attach_iter(program(name), nullptr));
  if (!link) return refused(errno, "threads could not be listed");
  const sys::ScopedFd fd(bpf_iter_create(bpf_link__fd(link.get())));
  if (!fd.is_open()) return refused(errno, "threads could not be listed");
  if (const int error = sys::read_away(fd.get()); error != 0) {
    return refused(error, "threads could not be listed");
  }
  return {};
}

Status KernelProgram::Impl::mark(std::span<const int> pids, uint32_t what) {
  for (const int pid : pids) {
    const auto key = static_cast<uint32_t>(pid);
    if (bpf_map_update_elem(map("wanted"), &key, &what, BPF_ANY) != 0) {
      return refused(errno, "a process could not be followed");
    }
  }
  // The first round learns how this process namespace numbers threads; the second also finds
  // threads that began during the first.
  Status done = iterate("on_task");
  if (done.ok()) done = iterate("on_task");
  for (const int pid : pids) {
    const auto key = static_cast<uint32_t>(pid);
    bpf_map_delete_elem(map("wanted"), &key);
  }
  ++control->generation;
  return done;
}

Status KernelProgram::follow(std::span<const int> pids, bool run_already) {
  return impl_->mark(pids, run_already ? kIoAttach : kIoFollow);
}

Status KernelProgram::forget(std::span<const int> pids) {
  return impl_->mark(pids, kIoForget);
}

Status KernelProgram::tell_under_way() {
  return impl_->iterate("on_under_way");
}

void KernelProgram::consume(const std::function<void(std::span<const std::byte>)>& take) {
  impl_->take = &take;
  ring_buffer__consume(impl_->ring.get());
  impl_->take = nullptr;
}

namespace {

void add(std::vector<std::pair<uint64_t, IoCount>>& counts, const IoCpu& cpu) {
  for (const IoUntimed& u : cpu.untimed) {
    if (u.count == 0) continue;
    counts.emplace_back(io_count_key(u.tid, u.call, io_bucket(u.last_ns)),
                        IoCount{u.count, u.bytes, u.count * u.last_ns});
  }
  for (const IoPendingCount& p : cpu.pending) {
    if (p.count.count != 0) counts.emplace_back(p.key, p.count);
  }
}

}  // namespace

Status KernelProgram::write_back_counts() {
  const int map = impl_->map("cpus");
  std::vector<IoCpu> all(static_cast<size_t>(std::max(libbpf_num_possible_cpus(), 1)));
  const uint32_t zero = 0;
  if (bpf_map_lookup_elem(map, &zero, all.data()) != 0)
    return refused(errno, "counts could not be read");
  for (const IoCpu& cpu : all) {
    add(impl_->counts, cpu);
    impl_->seen += cpu.seen;
  }
  std::fill(all.begin(), all.end(), IoCpu{});
  if (bpf_map_update_elem(map, &zero, all.data(), BPF_ANY) != 0)
    return refused(errno, "counts could not be taken");
  return {};
}

// One that counts at this moment is asked again; what it holds then comes the next time.
void KernelProgram::collect_counts() {
  std::vector<IoCpu> all(static_cast<size_t>(std::max(libbpf_num_possible_cpus(), 1)));
  const uint32_t zero = 0;
  if (bpf_map_lookup_elem(impl_->map("cpus"), &zero, all.data()) != 0) return;
  const int program = bpf_program__fd(impl_->program("on_collect"));
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& pending = all[i].pending;
    if (std::all_of(std::begin(pending), std::end(pending),
                    [](const IoPendingCount& p) { return p.count.count == 0; }))
      continue;
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    options.flags = BPF_F_TEST_RUN_ON_CPU;
    options.cpu = static_cast<uint32_t>(i);
    for (int tries = 0; tries < 3; ++tries)
      if (bpf_prog_test_run_opts(program, &options) != 0 || options.retval == 0) break;
  }
}

uint64_t KernelProgram::take_seen() {
  return std::exchange(impl_->seen, 0);
}

std::vector<std::pair<uint64_t, IoCount>> KernelProgram::read_counts() const {
  std::vector<std::pair<uint64_t, IoCount>> out;
  const int map = impl_->map("counts");
  uint64_t key = 0;
  for (int more = bpf_map_get_next_key(map, nullptr, &key); more == 0;
       more = bpf_map_get_next_key(map, &key, &key)) {
    IoCount count{};
    if (bpf_map_lookup_elem(map, &key, &count) == 0) out.emplace_back(key, count);
  }
  return out;
}

IoCount KernelProgram::take_count(uint64_t key) {
  IoCount count{};
  if (bpf_map_lookup_and_delete_elem(impl_->map("counts"), &key, &count) != 0) return {};
  return count;
}

std::vector<std::pair<uint64_t, IoCount>> KernelProgram::take_counts() {
  std::vector<std::pair<uint64_t, IoCount>> out = std::exchange(impl_->counts, {});
  const int map = impl_->map("counts");
  uint64_t key = 0;
  while (bpf_map_get_next_key(map, nullptr, &key) == 0) {
    IoCount count{};
    if (bpf_map_lookup_and_delete_elem(map, &key, &count) != 0) break;
    out.emplace_back(key, count);
  }
  return out;
}

IoControl& KernelProgram::control() {
  return *impl_->control;
}

uint64_t KernelProgram::dropped() const {
  const auto& dropped = impl_->control->dropped;
  return std::accumulate(std::begin(dropped), std::end(dropped), uint64_t{0});
}

uint64_t KernelProgram::uncounted() const {
  return impl_->control->uncounted;
}

size_t KernelProgram::ring_bytes() const {
  return impl_->ring_bytes;
}

}  // namespace forebay::record
