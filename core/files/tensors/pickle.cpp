#include "core/files/tensors/pickle.h"

#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace moescope {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMostValues = 20'000'000;

[[noreturn]] void fail(const std::string& why) {
  throw std::runtime_error("pickle " + why);
}

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Pickle run() {
    for (;;) {
      const auto opcode = static_cast<unsigned char>(take(1).front());
      if (opcode == '.') {
        pickle_.root = pop();
        return std::move(pickle_);
      }
      step(opcode);
      if (stack_.size() > kMostValues) fail("holds too many values");
    }
  }

 private:
  void step(unsigned char opcode);
  bool step_on_values(unsigned char opcode);

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) fail("ends too early");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::uint64_t number(int size) {
    const std::string_view bytes = take(static_cast<std::size_t>(size));
    std::uint64_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("ends too early");
    const std::string_view text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  using PicklePtr = PickleValue*;

  PicklePtr make(Kind kind) {
    if (pickle_.values.size() == kMostValues) fail("holds too many values");
    pickle_.values.emplace_back().kind = kind;
    return &pickle_.values.back();
  }
  PicklePtr make_number(std::int64_t number) {
    PicklePtr value = make(Kind::number);
    value->number = number;
    return value;
  }
  PicklePtr make_text(Kind kind, std::string_view text) {
    PicklePtr value = make(kind);
    value->text = text;
    return value;
  }

  void push(PicklePtr value) { stack_.push_back(value); }
  PicklePtr pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) fail("takes a value that is not there");
    PicklePtr value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top() {
    if (stack_.empty()) fail("changes a value that is not there");
    return *stack_.back();
  }
  std::vector<PicklePtr> pop_to_mark() {
    if (marks_.empty()) fail("has no mark where it needs one");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<PicklePtr> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }
  void push_tuple(int count) {
    PicklePtr tuple = make(Kind::list);
    tuple->items.resize(static_cast<std::size_t>(count));
    for (int i = count; i-- > 0;) tuple->items[static_cast<std::size_t>(i)] = pop();
    push(tuple);
  }
  void remember(std::uint64_t place) {
    if (stack_.empty()) fail("remembers a value that is not there");
    memo_[place] = stack_.back();
  }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail("recalls a value that it has not kept");
    push(found->second);
  }
  // Into the container on top. A called OrderedDict is one, too.
  void extend(const std::vector<PicklePtr>& items) {
    std::vector<PicklePtr>& into = top().items;
    into.insert(into.end(), items.begin(), items.end());
  }
  void call() {
    PicklePtr called = make(Kind::call);
    PicklePtr arguments = pop();
    called->items = {pop(), arguments};
    const PickleValue& function = *called->items[0];
    if (function.kind == Kind::global && function.text == "collections OrderedDict") return push(make(Kind::dict));
    push(called);
  }
  void push_long(std::size_t count) {
    if (count > 8) fail("holds an integer of more than 64 bits");
    const std::string_view bytes = take(count);
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    if (count > 0 && count < 8 && (bytes[count - 1] & 0x80)) value |= ~std::uint64_t{0} << 8 * count;
    push(make_number(static_cast<std::int64_t>(value)));
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  Pickle pickle_;
  std::vector<PicklePtr> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PicklePtr> memo_;
};

// Numbers and texts; the rest in step_on_values().
void Machine::step(unsigned char opcode) {
  switch (opcode) {
    case 0x80:  // PROTO
      take(1);
      return;
    case 0x95:  // FRAME
      take(8);
      return;
    case 'N':
      return push(make(Kind::none));
    case 0x88:  // NEWTRUE
      return push(make_number(1));
    case 0x89:  // NEWFALSE
      return push(make_number(0));
    case 'J':  // BININT
      return push(make_number(static_cast<std::int32_t>(number(4))));
    case 'K':  // BININT1
      return push(make_number(static_cast<std::int64_t>(number(1))));
    case 'M':  // BININT2
      return push(make_number(static_cast<std::int64_t>(number(2))));
    case 0x8a:  // LONG1
      return push_long(number(1));
    case 'G':  // BINFLOAT
      take(8);
      return push(make(Kind::none));  // no tensor depends on one
    case 'X':                         // BINUNICODE
    case 'B':                         // BINBYTES
      return push(make_text(Kind::text, take(number(4))));
    case 0x8c:  // SHORT_BINUNICODE
    case 'U':   // SHORT_BINSTRING
    case 'C':   // SHORT_BINBYTES
      return push(make_text(Kind::text, take(number(1))));
    case 0x8d:  // BINUNICODE8
      return push(make_text(Kind::text, take(number(8))));
    case 'c': {  // GLOBAL
      const std::string module(line());
      return push(make_text(Kind::global, module + ' ' + std::string(line())));
    }
    default:
      if (!step_on_values(opcode)) fail("has opcode " + std::to_string(opcode) + ", which no file of tensors needs");
  }
}

bool Machine::step_on_values(unsigned char opcode) {
  switch (opcode) {
    case '}':  // EMPTY_DICT
      push(make(Kind::dict));
      return true;
    case ']':   // EMPTY_LIST
    case ')':   // EMPTY_TUPLE
    case 0x8f:  // EMPTY_SET
      push(make(Kind::list));
      return true;
    case '(':  // MARK
      marks_.push_back(stack_.size());
      return true;
    case 't': {  // TUPLE
      PicklePtr tuple = make(Kind::list);
      tuple->items = pop_to_mark();
      push(tuple);
      return true;
    }
    case 0x85:  // TUPLE1, 2, 3
    case 0x86:
    case 0x87:
      push_tuple(opcode - 0x84);
      return true;
    case 'a': {  // APPEND
      std::vector<PicklePtr> item = {pop()};
      extend(item);
      return true;
    }
    case 's': {  // SETITEM
      PicklePtr value = pop();
      std::vector<PicklePtr> pair = {pop(), value};
      extend(pair);
      return true;
    }
    case 'e':   // APPENDS
    case 'u':   // SETITEMS
    case 0x90:  // ADDITEMS
      extend(pop_to_mark());
      return true;
    case 'q':  // BINPUT
      remember(number(1));
      return true;
    case 'r':  // LONG_BINPUT
      remember(number(4));
      return true;
    case 0x94:  // MEMOIZE
      remember(memo_.size());
      return true;
    case 'h':  // BINGET
      recall(number(1));
      return true;
    case 'j':  // LONG_BINGET
      recall(number(4));
      return true;
    case '0':  // POP
      pop();
      return true;
    case 0x93: {  // STACK_GLOBAL
      const PicklePtr name = pop(), module = pop();
      push(make_text(Kind::global, module->text + ' ' + name->text));
      return true;
    }
    case 'Q': {  // BINPERSID
      PicklePtr storage = make(Kind::storage);
      storage->items = {pop()};
      push(storage);
      return true;
    }
    case 'R':   // REDUCE
    case 0x81:  // NEWOBJ
      call();
      return true;
    case 'b':  // BUILD: the state of an object, in which no tensor of a state_dict is
      pop();
      return true;
    default:
      return false;
  }
}

}  // namespace

Pickle read_pickle(std::string_view bytes) {
  return Machine(bytes).run();
}

}  // namespace moescope
