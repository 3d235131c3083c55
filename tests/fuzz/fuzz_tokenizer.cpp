// libFuzzer over tokenizer.json: any bytes either are a tokenizer, which then turns texts into ids that it knows and
// back, or are refused with a std::runtime_error that names the file. How to run: CONTRIBUTING.md.
#include <stdexcept>
#include <string_view>

#include "core/files/text/text_encoding.h"
#include "core/model/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

namespace {

constexpr const char* kName = "fuzzed.json";

void use(const Tokenizer& tokenizer) {
  for (const std::string_view text :
       {"", " Hello,  wörld's 123\r\n", "A\u0301 <|end|> 😀 \xff \t aaaaaaaaaaaaaaaaaaaa"}) {
    const auto ids = tokenizer.encode(text);
    require(ids == tokenizer.encode(text), "the same text has the same ids");
    for (const std::int32_t id : tokenizer.encode(text, SpecialTokenUse::without)) {
      require(id >= 0 && id < tokenizer.end(), "ids are of the vocabulary");
      require(tokenizer.spelling(id).has_value(), "an id has a token");
      require(tokenizer.bytes(id).has_value(), "a token stands for bytes");
    }
    tokenizer.decode(ids, SpecialTokenUse::with);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  try {
    use(Tokenizer(std::string_view(reinterpret_cast<const char*>(data), size), kName));
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).starts_with(kName), "the message names the file");
  }
  return 0;
}
