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
  // Handles numbers and texts; step_on_values() handles the other opcodes.
  void step(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        take(1);
        return;
      case 0x95:  // FRAME
        take(8);
        return;
      case 'N':
        return push(make_none());
      case 0x88:  // NEWTRUE
        return push(make_number(1));
      case 0x89:  // NEWFALSE
        return push(make_number(0));
      case 'J':  // BININT
        return push(make_number(static_cast<std::int32_t>(number(4))));
      case 'K':  // BININT1
        return push(make_number(number(1)));
      case 'M':  // BININT2
        return push(make_number(number(2)));
      case 0x8a:  // LONG1
        return push_long(number(1));
      case 0x8b:  // LONG4
        return push_long(number(4));
      case 'G':  // BINFLOAT
        take(8);
        return push(make_none());  // no tensor depends on its value
      case 'X':                    // BINUNICODE
      case 'B':                    // BINBYTES
      case 'T':                    // BINSTRING
        return push(make_text(Kind::text, take(number(4))));
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
        return push(make_text(Kind::text, take(number(1))));
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push(make_text(Kind::text, take(number(8))));
      case 'c': {  // GLOBAL
        const std::string_view module = line();
        return push(make_text(Kind::global, module, line()));
      }
      default:
        step_on_values(opcode);
    }
  }

  void step_on_values(unsigned char opcode) {
    switch (opcode) {
      case '}':  // EMPTY_DICT
        return push(make(Kind::dict));
      case ']':   // EMPTY_LIST
      case ')':   // EMPTY_TUPLE
      case 0x8f:  // EMPTY_SET
        return push(make(Kind::list));
      case '(':  // MARK
        return mark();
      case 't':   // TUPLE
      case 'l':   // LIST
      case 0x91:  // FROZENSET
        return push(make_list(Kind::list, pop_to_mark()));
      case 'd':  // DICT
        return push(make_list(Kind::dict, pop_to_mark()));
      case 0x85:  // TUPLE1, 2, 3
      case 0x86:
      case 0x87:
        return push_tuple(opcode - 0x84);
      case 'a': {  // APPEND
        std::vector<PicklePtr> item = {pop()};
        return extend(item);
      }
      case 's': {  // SETITEM
        PicklePtr value = pop();
        std::vector<PicklePtr> pair = {pop(), value};
        return extend(pair);
      }
      case 'e':   // APPENDS
      case 'u':   // SETITEMS
      case 0x90:  // ADDITEMS
        return extend(pop_to_mark());
      case 'q':  // BINPUT
        return remember(number(1));
      case 'r':  // LONG_BINPUT
        return remember(number(4));
      case 0x94:  // MEMOIZE
        return remember(memo_.size());
      case 'h':  // BINGET
        return recall(number(1));
      case 'j':  // LONG_BINGET
        return recall(number(4));
      case '0':  // POP
        pop();
        return;
      case '1':  // POP_MARK
        pop_to_mark();
        return;
      case '2':  // DUP
        return push(&top());
      case 0x93: {  // STACK_GLOBAL
        const PicklePtr name = pop(), module = pop();
        return push(make_text(Kind::global, module->text, name->text));
      }
      case 'Q':  // BINPERSID
        return push(make_list(Kind::storage, {pop()}));
      case 'R':   // REDUCE
      case 0x81:  // NEWOBJ
        return call();
      case 0x92:  // NEWOBJ_EX: the last arguments are named
        pop();
        return call();
      case 'b':  // BUILD
        return build();
      default:
        fail(fmt::format("has opcode {}, which no file of tensors needs", opcode));
    }
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
  void push_tuple(int count) {
    std::vector<PicklePtr> items(count);
    for (int i = count; i-- > 0;) items[i] = pop();
    push(make_list(Kind::list, std::move(items)));
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
