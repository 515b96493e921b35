#include "record/kernel_names.h"

#include <bpf/bpf.h>

#include <array>
#include <cstring>
#include <string_view>

#include "sys/file.h"
#include "sys/memory.h"

namespace forebay::record {

namespace {

constexpr size_t kTextBytes = 248;

// What the program and this process share.
struct Question {
  uint64_t address;
  char text[kTextBytes];  // the answer
};

constexpr uint8_t kLoadTwoWords = BPF_LD | BPF_DW;  // and BPF_IMM, which is 0 as BPF_LD is

// The address of a byte of a map's only value: two instructions.
constexpr std::array<bpf_insn, 2> load_address(int reg, int map, int offset) {
  return {{{.code = kLoadTwoWords,
            .dst_reg = static_cast<uint8_t>(reg & 15),
            .src_reg = BPF_PSEUDO_MAP_VALUE,
            .off = 0,
            .imm = map},
           {.code = 0, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = offset}}};
}

constexpr bpf_insn load_number(int reg, int number) {
  return {.code = BPF_ALU64 | BPF_MOV | BPF_K,
          .dst_reg = static_cast<uint8_t>(reg & 15),
          .src_reg = 0,
          .off = 0,
          .imm = number};
}

int make_map(const char* name, size_t bytes, uint32_t flags) {
  bpf_map_create_opts options{};
  options.sz = sizeof(options);
  options.map_flags = flags;
  return bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(uint32_t), static_cast<uint32_t>(bytes), 1,
                        &options);
}

// bpf_snprintf(text, sizeof(text), "%ps", &address, sizeof(address)) as a program; -1 = refused.
int load_program(int question, int format) {
  const auto text = load_address(BPF_REG_1, question, offsetof(Question, text));
  const auto words = load_address(BPF_REG_3, format, 0);
  const auto address = load_address(BPF_REG_4, question, offsetof(Question, address));
  const std::array<bpf_insn, 10> code{{
      text[0],
      text[1],
      load_number(BPF_REG_2, kTextBytes),
      words[0],
      words[1],
      address[0],
      address[1],
      load_number(BPF_REG_5, sizeof(uint64_t)),
      {.code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_snprintf},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  }};
  bpf_prog_load_opts options{};
  options.sz = sizeof(options);
  options.prog_flags = BPF_F_SLEEPABLE;
  return bpf_prog_load(BPF_PROG_TYPE_SYSCALL, "forebay_names", "GPL", code.data(), code.size(),
                       &options);
}

}  // namespace

struct KernelNames::Impl {
  sys::ScopedFd format, question, program;
  sys::SharedMemory shared;
};

KernelNames::KernelNames(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelNames::~KernelNames() = default;

std::unique_ptr<KernelNames> KernelNames::open() {
  auto impl = std::make_unique<Impl>();
  const std::array<char, 8> words{"%ps"};
  const uint32_t zero = 0;
  impl->format = sys::ScopedFd(make_map("forebay_format", words.size(), BPF_F_RDONLY_PROG));
  impl->question = sys::ScopedFd(make_map("forebay_question", sizeof(Question), BPF_F_MMAPABLE));
  if (!impl->format.is_open() || !impl->question.is_open() ||
      bpf_map_update_elem(impl->format.get(), &zero, words.data(), BPF_ANY) != 0 ||
      bpf_map_freeze(impl->format.get()) != 0) {
    return nullptr;
  }
  impl->program = sys::ScopedFd(load_program(impl->question.get(), impl->format.get()));
  auto shared = sys::SharedMemory::map(impl->question.get(), sizeof(Question));
  if (!impl->program.is_open() || !shared.ok()) return nullptr;
  impl->shared = std::move(shared).take();
  return std::unique_ptr<KernelNames>(new KernelNames(std::move(impl)));
}

KernelNames::Name KernelNames::of(uint64_t address) {
  auto* const question = reinterpret_cast<Question*>(impl_->shared.data());
  question->address = address;
  question->text[0] = 0;
  bpf_test_run_opts options{};
  options.sz = sizeof(options);
  if (bpf_prog_test_run_opts(impl_->program.get(), &options) != 0) return {};
  std::string_view text(question->text, strnlen(question->text, kTextBytes));
  if (text.starts_with("0x")) return {};  // no symbol's
  const size_t space = text.find(" [");   // "name [module]"
  Name name{.symbol = std::string(text.substr(0, space)), .module = {}};
  if (space != text.npos && text.ends_with(']')) {
    text.remove_prefix(space + 2);
    name.module = text.substr(0, text.size() - 1);
  }
  return name;
}

}  // namespace forebay::record
