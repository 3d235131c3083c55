// golden_tokenizers DIR: checks token ids and decoded texts against those of the `tokenizers` package.
//
// DIR holds tokenizers, NAME.json, and expected.json as tests/golden/make_tokenizers.js writes it. Exits with 0 if all
// agree, 1 if something differs, 2 if there is nothing to compare or a file cannot be read.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/model/tokenizer/tokenizer.h"

using namespace moescope;

namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

// Counts the texts whose results all agree, and shows the first that differs.
struct Texts {
  int equal = 0, all = 0;

  template <class Value>
  bool is_same(const char* what, const std::string& text, const Value& value, const Json& want) {
    const Json found = value;
    if (found == want) return true;
    if (all == equal)
      std::printf("  %s of %s is %s, expected %s\n", what, printable(Json(text).dump()).c_str(),
                  printable(found.dump()).c_str(), printable(want.dump()).c_str());
    return false;
  }
};

Texts check(const Tokenizer& tokenizer, const Json& texts, const Json& expected) {
  Texts counted;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i].get<std::string>();
    const Ids special = expected.at("special").at(i).get<Ids>();
    bool equal =
        counted.is_same("ids", text, tokenizer.encode(text, SpecialTokenUse::without), expected.at("plain").at(i));
    equal &= counted.is_same("ids with special ones", text, tokenizer.encode(text), expected.at("special").at(i));
    equal &= counted.is_same("decoded text", text, tokenizer.decode(special), expected.at("decoded").at(i));
    equal &= counted.is_same("decoded text with special tokens", text, tokenizer.decode(special, SpecialTokenUse::with),
                             expected.at("decoded_special").at(i));
    counted.equal += equal;
    ++counted.all;
  }
  return counted;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIR\n", argv[0]);
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    const Json file = parse_json(read_file((folder / "expected.json").string(), std::uint64_t{64} << 20, "reference"));
    Texts total;
    for (const auto& [name, expected] : file.at("tokenizers").items()) {
      const Tokenizer tokenizer((folder / (name + ".json")).string());
      const Texts counted = check(tokenizer, file.at("texts"), expected);
      std::printf("%-32s %d of %d texts equal\n", name.c_str(), counted.equal, counted.all);
      total.equal += counted.equal;
      total.all += counted.all;
    }
    std::printf("%d texts compared, %d differ\n", total.all, total.all - total.equal);
    if (total.all == 0) return 2;
    return total.equal == total.all ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 2;
  }
}
