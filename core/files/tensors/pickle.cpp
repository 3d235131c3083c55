#include "core/files/tensors/pickle.h"

#include <fmt/core.h>

#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/files/little_endian.h"
#include "core/numerics/index.h"

namespace moescope {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMaxPickleMemory = std::size_t{256} << 20;  // memory; a few bytes may make many values
constexpr std::int64_t kSharedNumbers = 65536;
// Memory of an entry of the memo and of the stack, including the container's share.
constexpr std::size_t kMemoBytes = 48, kPlaceBytes = 16;

[[noreturn]] void fail(const std::string& reason) {
  throw std::runtime_error("pickle " + reason);
}

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Pickle run() {
    for (;;) {
      const auto opcode = static_cast<unsigned char>(take(1).front());
      if (opcode == '.') {
        pickle_.root = pop();
        pickle_.bytes = at_;
        return std::move(pickle_);
      }
      step(opcode);
    }
  }

 private:
  // Runs an opcode. The names are those of Python's pickletools.
  void step(unsigned char opcode) {
    struct Row {
      std::string_view opcodes;
      void (*run)(Machine& m);
    };
    static constexpr Row kRows[] = {
        {"\x80", [](Machine& m) { m.take(1); }},                                                   // PROTO
        {"\x95", [](Machine& m) { m.take(8); }},                                                   // FRAME
        {"N", [](Machine& m) { m.push(m.make_none()); }},                                          // NONE
        {"\x88", [](Machine& m) { m.push(m.make_number(1)); }},                                    // NEWTRUE
        {"\x89", [](Machine& m) { m.push(m.make_number(0)); }},                                    // NEWFALSE
        {"J", [](Machine& m) { m.push(m.make_number(static_cast<std::int32_t>(m.number(4)))); }},  // BININT
        {"K", [](Machine& m) { m.push(m.make_number(m.number(1))); }},                             // BININT1
        {"M", [](Machine& m) { m.push(m.make_number(m.number(2))); }},                             // BININT2
        {"\x8a", [](Machine& m) { m.push_long(m.number(1)); }},                                    // LONG1
        {"\x8b", [](Machine& m) { m.push_long(m.number(4)); }},                                    // LONG4
        {"G",  // BINFLOAT: no tensor depends on its value
         [](Machine& m) {
           m.take(8);
           m.push(m.make_none());
         }},
        {"XBT", [](Machine& m) { m.push_text(4); }},           // BINUNICODE, BINBYTES, BINSTRING
        {"\x8cUC", [](Machine& m) { m.push_text(1); }},        // SHORT_BINUNICODE, ..._BINSTRING, ..._BINBYTES
        {"\x8d\x8e\x96", [](Machine& m) { m.push_text(8); }},  // BINUNICODE8, BINBYTES8, BYTEARRAY8
        {"c",                                                  // GLOBAL
         [](Machine& m) {
           const std::string_view module = m.line();
           m.push(m.make_text(Kind::global, module, m.line()));
         }},
        {"}", [](Machine& m) { m.push(m.make(Kind::dict)); }},       // EMPTY_DICT
        {"])\x8f", [](Machine& m) { m.push(m.make(Kind::list)); }},  // EMPTY_LIST, EMPTY_TUPLE, EMPTY_SET
        {"(", [](Machine& m) { m.mark(); }},                         // MARK
        {"tl\x91", [](Machine& m) { m.push(m.make_list(Kind::list, m.pop_to_mark())); }},  // TUPLE, LIST, FROZENSET
        {"d", [](Machine& m) { m.push(m.make_list(Kind::dict, m.pop_to_mark())); }},       // DICT
        {"\x85", [](Machine& m) { m.push(m.make_list(Kind::list, m.pop_some(1))); }},      // TUPLE1
        {"\x86", [](Machine& m) { m.push(m.make_list(Kind::list, m.pop_some(2))); }},      // TUPLE2
        {"\x87", [](Machine& m) { m.push(m.make_list(Kind::list, m.pop_some(3))); }},      // TUPLE3
        {"a", [](Machine& m) { m.extend(m.pop_some(1)); }},                                // APPEND
        {"s", [](Machine& m) { m.extend(m.pop_some(2)); }},                                // SETITEM
        {"eu\x90", [](Machine& m) { m.extend(m.pop_to_mark()); }},  // APPENDS, SETITEMS, ADDITEMS
        {"q", [](Machine& m) { m.remember(m.number(1)); }},         // BINPUT
        {"r", [](Machine& m) { m.remember(m.number(4)); }},         // LONG_BINPUT
        {"\x94", [](Machine& m) { m.remember(m.memo_.size()); }},   // MEMOIZE
        {"h", [](Machine& m) { m.recall(m.number(1)); }},           // BINGET
        {"j", [](Machine& m) { m.recall(m.number(4)); }},           // LONG_BINGET
        {"0", [](Machine& m) { m.pop(); }},                         // POP
        {"1", [](Machine& m) { m.pop_to_mark(); }},                 // POP_MARK
        {"2", [](Machine& m) { m.push(&m.top()); }},                // DUP
        {"\x93",                                                    // STACK_GLOBAL
         [](Machine& m) {
           const PicklePtr name = m.pop(), module = m.pop();
           m.push(m.make_text(Kind::global, module->text, name->text));
         }},
        {"Q", [](Machine& m) { m.push(m.make_list(Kind::storage, {m.pop()})); }},  // BINPERSID
        {"R\x81", [](Machine& m) { m.call(); }},                                   // REDUCE, NEWOBJ
        {"\x92",  // NEWOBJ_EX: the last arguments are named
         [](Machine& m) {
           m.pop();
           m.call();
         }},
        {"b", [](Machine& m) { m.build(); }}};  // BUILD
    static constexpr auto kSteps = [] {
      std::array<void (*)(Machine&), 256> steps{};
      for (const Row& row : kRows)
        for (const char code : row.opcodes) steps[static_cast<unsigned char>(code)] = row.run;
      return steps;
    }();
    if (!kSteps[opcode]) fail(fmt::format("has opcode {}, which no file of tensors needs", opcode));
    kSteps[opcode](*this);
  }

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) fail("ends too early");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::uint64_t number(std::size_t size) { return little_endian(take(size)); }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("ends too early");
    const std::string_view text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  using PicklePtr = PickleValue*;

  void keep(std::size_t more) {
    memory_bytes_ += more;
    if (memory_bytes_ > kMaxPickleMemory) fail(fmt::format("takes more than {} MiB of memory", kMaxPickleMemory >> 20));
  }
  PicklePtr make(Kind kind) {
    keep(sizeof(PickleValue));
    pickle_.values.emplace_back().kind = kind;
    return &pickle_.values.back();
  }
  // Lists of numbers may be long, so small numbers share one value each, and so do all values of kind none.
  PicklePtr make_number(std::int64_t number) {
    const bool small = number >= 0 && number < kSharedNumbers;
    if (small && shared_.empty()) shared_.resize(kSharedNumbers);
    if (small && shared_[number]) return shared_[number];
    PicklePtr value = make(Kind::number);
    value->number = number;
    if (small) shared_[number] = value;
    return value;
  }
  void push_text(std::size_t bytes_of_size) { push(make_text(Kind::text, take(number(bytes_of_size)))); }
  PicklePtr make_none() { return none_ ? none_ : none_ = make(Kind::none); }
  PicklePtr make_text(Kind kind, std::string_view text, std::string_view name = {}) {
    PicklePtr value = make(kind);
    value->text = text;
    value->name = name;
    return value;
  }

  void push(PicklePtr value) {
    if (stack_.size() == deepest_) {
      keep(kPlaceBytes);
      ++deepest_;
    }
    stack_.push_back(value);
  }
  PicklePtr pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()))
      fail("takes a value that does not exist");
    PicklePtr value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top() {
    if (stack_.empty()) fail("changes a value that does not exist");
    return *stack_.back();
  }
  std::vector<PicklePtr> pop_to_mark() {
    if (marks_.empty()) fail("has no mark where it needs one");
    const auto first = stack_.begin() + marks_.back();
    marks_.pop_back();
    std::vector<PicklePtr> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }
  PicklePtr make_list(Kind kind, std::vector<PicklePtr> items) {
    PicklePtr list = make(kind);
    keep(items.size() * sizeof(PicklePtr));
    list->items = std::move(items);
    return list;
  }
  std::vector<PicklePtr> pop_some(int count) {
    std::vector<PicklePtr> items(count);
    for (int i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  void remember(std::uint64_t place) {
    if (stack_.empty()) fail("stores a value that does not exist");
    if (memo_.insert_or_assign(place, stack_.back()).second) keep(kMemoBytes);
  }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail("recalls a value that it has not stored");
    push(found->second);
  }
  void mark() {
    keep(kPlaceBytes);
    marks_.push_back(stack_.size());
  }
  // Adds items to the container on top of the stack. Results of OrderedDict() and defaultdict() are containers as well.
  void extend(const std::vector<PicklePtr>& items) {
    keep(items.size() * kPlaceBytes);
    std::vector<PicklePtr>& into = top().items;
    into.insert(into.end(), items.begin(), items.end());
  }
  void call() {
    PicklePtr arguments = pop(), function = pop();
    if (function->is("collections", "OrderedDict") || function->is("collections", "defaultdict"))
      return push(make(Kind::dict));
    push(make_list(Kind::call, {function, arguments}));
  }
  // Sets the state of the result of a call. Attributes of containers are ignored: they hold no tensors.
  void build() {
    PicklePtr state = pop();
    if (top().kind == Kind::call) top().state = state;
  }
  void push_long(std::size_t count) {
    const std::string_view bytes = take(count);
    if (count > 8) return push(make_text(Kind::large, bytes));
    std::uint64_t value = little_endian(bytes);
    if (count > 0 && count < 8 && (bytes[count - 1] & 0x80)) value |= ~std::uint64_t{0} << 8 * count;
    push(make_number(value));
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  Pickle pickle_;
  std::vector<PicklePtr> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PicklePtr> memo_;
  std::vector<PicklePtr> shared_;
  PicklePtr none_ = nullptr;
  std::size_t memory_bytes_ = 0, deepest_ = 0;
};

}  // namespace

Pickle read_pickle(std::string_view bytes) {
  return Machine(bytes).run();
}

}  // namespace moescope
