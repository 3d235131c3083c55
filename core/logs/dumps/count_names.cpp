#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <set>

#include "core/logs/dumps/dump_readers.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/tag_map.h"
#include "core/numerics/index.h"

namespace moescope {

namespace {

constexpr std::int64_t kMaxNumber = 1'000'000'000;

// The words and numbers of a name: "blk.3.ffn_w1" is blk, 3, ffn, w, 1. Letters are made small.
struct NamePart {
  std::string word;  // empty: a number
  std::int64_t number = 0;
  bool is_key = false;       // a number between dots or slashes, as keys and indices of containers are
  bool begins_word = false;  // letters follow it directly: "2d"
};

std::vector<NamePart> name_parts(std::string_view name) {
  std::vector<NamePart> parts;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t begin = i;
    if (is_digit(name[i])) {
      while (i < name.size() && is_digit(name[i])) ++i;
      NamePart part;
      const auto [end, error] = std::from_chars(name.data() + begin, name.data() + i, part.number);
      if (error != std::errc() || part.number > kMaxNumber) part.number = kMaxNumber;
      const auto is_end = [&](std::size_t at) { return at >= name.size() || name[at] == '.' || name[at] == '/'; };
      part.is_key = is_end(begin - 1) && is_end(i);  // begin - 1 of 0 is beyond the end
      part.begins_word = i < name.size() && std::isalpha(static_cast<unsigned char>(name[i]));
      parts.push_back(part);
    } else if (std::isalpha(static_cast<unsigned char>(name[i]))) {
      while (i < name.size() && std::isalpha(static_cast<unsigned char>(name[i]))) ++i;
      parts.push_back({in_lower_case(name.substr(begin, i - begin))});
    } else {
      ++i;
    }
  }
  return parts;
}

bool holds_any(const std::set<std::string>& words, std::initializer_list<std::string_view> candidates) {
  return std::ranges::any_of(candidates, [&](std::string_view word) { return words.contains(std::string(word)); });
}

bool names_counts(std::string_view word) {
  return is_one_of(
      word, {"count",      "counter",     "counts",   "load",     "loads",      "usage",       "freq",   "freqs",
             "frequency",  "frequencies", "hits",     "hist",     "histogram",  "assignments", "tokens", "activations",
             "activation", "selections",  "dispatch", "bincount", "popularity", "expert",      "tpe"});
}

bool counts_something(const std::set<std::string>& words) {
  const bool other =
      holds_any(words, {"max",  "min",  "mean",  "avg",   "std",    "var",     "entropy", "bias",  "weight",
                        "loss", "map",  "mask",  "rank",  "score",  "scores",  "prob",    "probs", "cost",
                        "grad", "time", "norm",  "valid", "index",  "indices", "ids",     "id",    "rate",
                        "cv",   "co",   "ratio", "logit", "logits", "memory"});
  return !other && std::ranges::any_of(words, [](const std::string& w) { return w != "expert" && names_counts(w); });
}

bool is_about_experts(const std::set<std::string>& words) {
  return holds_any(words, {"expert", "experts", "moe", "router", "routing", "logical", "physical", "tpe"});
}

// Takes a number by the word before it.
void take_number(const NamePart& part, const std::string& before, CountName& found) {
  const Counted counted = counted_by(before);
  if (counted == Counted::layer && found.layer < 0)
    found.layer = to_int(part.number);
  else if (counted == Counted::expert && found.expert < 0)
    found.expert = to_int(part.number);
  else if (counted == Counted::step && found.step < 0)
    found.step = part.number;
  else if (counted == Counted::rank && found.rank < 0)
    found.rank = part.number;
  else if (part.is_key || (names_counts(before) && !part.begins_word))
    found.unnamed_numbers.push_back(part.number);
  else  // part of a word, such as w1
    found.stem += std::to_string(part.number);
}

}  // namespace

CountName count_name(std::string_view name, const std::string& file) {
  CountName found;
  std::set<std::string> name_words;  // the words of the name
  const std::vector<NamePart> parts = name_parts(name);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].word.empty()) {
      name_words.insert(parts[i].word);
      found.stem += (found.stem.empty() ? "" : ".") + parts[i].word;
    } else {
      take_number(parts[i], i > 0 ? parts[i - 1].word : std::string(), found);
    }
  }
  std::set<std::string> with_file = name_words;
  for (const NamePart& part : name_parts(std::filesystem::path(file).stem().string())) with_file.insert(part.word);
  const bool says_nothing = std::ranges::all_of(name_words, [](const std::string& word) {
    return counted_by(word) < Counted::rank || word == "per" || word == "by";
  });
  const std::set<std::string>& subject = says_nothing ? with_file : name_words;
  const auto is_of_token = [&](const NamePart& part) {  // "tokens.5.experts" are the experts of a token
    return part.is_key && is_one_of((&part)[-1].word, {"token", "tokens", "position", "positions"});
  };
  const bool are_ids = !parts.empty() && is_one_of(parts.back().word, {"expert", "experts"}) &&
                       std::any_of(parts.begin() + 1, parts.end(), is_of_token);
  found.counts = counts_something(subject) && is_about_experts(with_file) && !are_ids;
  found.is_logits =
      holds_any(subject, {"logits", "logit", "probs"}) && holds_any(with_file, {"router", "gate", "routing", "moe"});
  found.is_mask = holds_any(subject, {"map", "mask"}) &&
                  holds_any(subject, {"expert", "experts", "router", "routing", "dispatch", "moe"});
  found.by_layer = holds_any(subject, {"layer", "layers", "logical", "physical"});
  return found;
}

}  // namespace moescope
