#include "core/model/text/domain_generator.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "core/config/mixture.h"

namespace moescope {
namespace {

// Text in which experts matter: facts that can only be memorised.
//
// Ten languages have 59 symbols in common. A text alternates the language's letter and a symbol, such as "QaQ7Q(Qm",
// and the next symbol depends on language and symbol alone: each language is one cycle through all symbols, in an order
// of its own. These are 590 facts without a rule, equal for every seed, so a model needs weights to store them. One
// symbol in a hundred is random, so that no model has a loss below 0.048 nats/byte.
constexpr std::string_view kSymbols = "abcdefghijklmnopqrstuvwxyz0123456789+-*/=<>()[]{}.,;:!?&%$#";
static_assert(kSymbols.size() == 59);
constexpr double kRandomSymbols = 0.01;  // share of symbols that no fact determines
constexpr int kSymbolsPerDocument = 32;

char random_symbol(Draws& draws) {
  return kSymbols[draws.below(static_cast<std::uint32_t>(kSymbols.size()))];
}

using Successors = std::array<char, 128>;  // by symbol

// Returns the successor of each symbol in the language's own cycle through all symbols.
Successors shuffled_cycle(std::size_t language) {
  const RandomStream stream(0, "data.facts");
  Draws draws(stream, language);
  std::string order(kSymbols);
  for (auto remaining = static_cast<std::uint32_t>(order.size()); remaining > 1; --remaining)
    std::swap(order[remaining - 1], order[draws.below(remaining)]);
  Successors next{};
  for (std::size_t i = 0; i < order.size(); ++i)
    next[static_cast<std::size_t>(order[i])] = order[(i + 1) % order.size()];
  return next;
}

template <std::size_t language>
void append_facts(std::string& text, Draws& draws) {
  static const Successors next = shuffled_cycle(language);
  char symbol = text.empty() ? random_symbol(draws) : text.back();
  for (int remaining_symbols = kSymbolsPerDocument; remaining_symbols > 0; --remaining_symbols) {
    symbol = draws.chance(kRandomSymbols) ? random_symbol(draws) : next[static_cast<std::size_t>(symbol)];
    text += kFactLanguages[language];
    text += symbol;
  }
}

template <std::size_t... language>
constexpr auto languages(std::index_sequence<language...>) {
  return std::array{Domain{kFactLanguages[language], append_facts<language>}...};
}

// A document continues the cycle after the last symbol of `text`.
constexpr auto kLanguageDomains = languages(std::make_index_sequence<kFactLanguages.size()>());

// Appends pieces by <<, whose operands are evaluated from left to right, unlike those of +. The order matters, because
// it is the order of draws.
struct Out {
  std::string& text;
  Out& operator<<(std::string_view piece) {
    text += piece;
    return *this;
  }
  Out& operator<<(char piece) {
    text += piece;
    return *this;
  }
  Out& operator<<(int number) { return *this << std::string_view(std::to_string(number)); }
};

// --- prose: subject and verb agree, pronouns match their nouns, words follow Zipf's law ------------------------------

struct Noun {
  const char *singular, *plural, *pronoun;
};
constexpr Noun kNouns[] = {{"man", "men", "he"},
                           {"woman", "women", "she"},
                           {"child", "children", "it"},
                           {"river", "rivers", "it"},
                           {"king", "kings", "he"},
                           {"queen", "queens", "she"},
                           {"horse", "horses", "it"},
                           {"house", "houses", "it"},
                           {"forest", "forests", "it"},
                           {"miller", "millers", "he"},
                           {"sailor", "sailors", "he"},
                           {"singer", "singers", "she"},
                           {"mountain", "mountains", "it"},
                           {"teacher", "teachers", "she"},
                           {"merchant", "merchants", "he"},
                           {"garden", "gardens", "it"},
                           {"bird", "birds", "it"},
                           {"village", "villages", "it"}};
constexpr const char* kAdjectives[] = {"old",   "young", "quiet",   "great",  "little", "golden",  "weary",
                                       "proud", "green", "distant", "clever", "silent", "ancient", "bright"};
constexpr const char* kVerbs[] = {"see",    "know", "love",  "follow", "remember",
                                  "admire", "find", "leave", "greet",  "paint"};
constexpr const char* kPlaces[] = {"in the valley",   "near the sea", "under the stars",  "at the market",
                                   "behind the wall", "on the road",  "by the old bridge"};
constexpr const char* kTimes[] = {"in the morning", "at night", "every day", "in winter", "before the rain"};

void append_noun_phrase(Out& out, Draws& d, const Noun& noun, bool is_plural) {
  const char* indefinite = is_plural ? "some " : "one ";
  out << (d.chance(0.7) ? "the " : indefinite);
  if (d.chance(0.5)) out << d.skewed(kAdjectives) << ' ';
  out << (is_plural ? noun.plural : noun.singular);
}

void append_sentence(std::string& text, Draws& d) {
  Out out{text};
  const std::size_t start = text.size();
  const Noun& subject = d.skewed(kNouns);
  const bool is_plural = d.chance(0.35);
  const char* ending = is_plural ? " " : "s ";
  append_noun_phrase(out, d, subject, is_plural);
  out << ' ' << d.skewed(kVerbs) << ending;
  const Noun& object = d.skewed(kNouns);
  append_noun_phrase(out, d, object, d.chance(0.35));
  if (d.chance(0.5)) out << ' ' << d.skewed(kPlaces);
  if (d.chance(0.4))
    out << ", and " << (is_plural ? "they" : subject.pronoun) << ' ' << d.skewed(kVerbs) << ending << "it";
  if (d.chance(0.3)) out << ' ' << d.skewed(kTimes);
  text[start] = static_cast<char>(text[start] - 'a' + 'A');
  out << ". ";
}

void append_prose(std::string& text, Draws& d) {
  for (int remaining = d.between(3, 6); remaining > 0; --remaining) append_sentence(text, d);
  text.back() = '\n';
}

// --- code: names are used as declared, braces and indentation match --------------------------------------------------

constexpr const char* kFunctions[] = {"sum", "scale", "count", "limit", "merge", "shift", "clamp", "blend"};
constexpr const char* kVariables[] = {"x", "y", "n", "value", "width", "total", "index", "left"};
constexpr const char* kOperators[] = {" + ", " - ", " * ", " / "};

void append_code(std::string& text, Draws& d) {
  Out out{text};
  const std::string a = d.skewed(kVariables);
  std::string b = d.skewed(kVariables);
  if (a == b) b += "2";
  const char* type = d.chance(0.6) ? "int" : "float";
  out << type << ' ' << d.skewed(kFunctions) << '_' << a << '(' << type << ' ' << a << ", " << type << ' ' << b
      << ") {\n";
  out << "  " << type << " result = " << a << d.uniform(kOperators) << b << ";\n";
  if (d.chance(0.5)) {
    out << "  for (int i = 0; i < " << (1 << d.between(1, 8)) << "; ++i) {\n";
    out << "    result = result" << d.uniform(kOperators) << (d.chance(0.5) ? a : b) << ";\n  }\n";
  }
  if (d.chance(0.4)) out << "  if (result > " << b << ") {\n    return " << b << ";\n  }\n";
  out << "  return result;\n}\n\n";
}

// --- arithmetic: every result is right -------------------------------------------------------------------------------

void append_arithmetic(std::string& text, Draws& d) {
  const int kind = d.between(0, 2);
  const int a = kind == 2 ? d.between(2, 12) : d.between(0, 99), b = kind == 2 ? d.between(2, 12) : d.between(0, 99);
  int result = a * b;
  if (kind == 0) result = a + b;
  if (kind == 1) result = a - b;
  text += fmt::format("{}{}{}={}\n", a, "+-*"[kind], b, result);
}

// --- JSON: one schema, keys in order, each with its kind of value ----------------------------------------------------

constexpr const char* kPeople[] = {"Ada", "Emmy", "Grace", "Alan", "Kurt", "Sofia", "Carl", "Maria", "Leonhard"};
constexpr const char* kCities[] = {"Berlin", "Kyoto", "Lima", "Oslo", "Cairo", "Turin"};
constexpr const char* kTags[] = {"new", "paid", "urgent", "gift", "remote"};

void append_json(std::string& text, Draws& d) {
  Out out{text};
  out << "{\"id\":" << d.between(1000, 9999) << ",\"name\":\"" << d.skewed(kPeople);
  out << "\",\"city\":\"" << d.skewed(kCities) << "\",\"active\":" << (d.chance(0.7) ? "true" : "false");
  out << ",\"tags\":[";
  for (int remaining = d.between(0, 3); remaining > 0; --remaining)
    out << '"' << d.skewed(kTags) << (remaining > 1 ? "\"," : "\"");
  out << "],\"score\":" << d.between(0, 9) << '.' << d.between(0, 9) << "}\n";
}

// --- brackets: nested and matched ------------------------------------------------------------------------------------

void append_brackets(std::string& text, Draws& d) {
  static constexpr char kOpen[] = {'(', '[', '{', '<'};
  std::string to_close;
  for (int remaining = d.between(12, 30); remaining > 0; --remaining) {
    if (!to_close.empty() && (to_close.size() >= 8 || d.chance(0.45))) {
      text += to_close.back();
      to_close.pop_back();
    } else {
      const std::uint32_t kind = d.below(4);
      text += kOpen[kind];
      to_close += ")]}>"[kind];
    }
  }
  text.append(to_close.rbegin(), to_close.rend());
  text += '\n';
}

// --- DNA: genes of codons from a biased table, between start and stop ------------------------------------------------

constexpr const char* kCodons[] = {"GCT", "GAA", "AAG", "CTG", "GGC", "TTC", "ACC", "CCA",
                                   "GTG", "ATC", "CAG", "AGC", "TAC", "CGT", "AAC", "GAT"};
constexpr const char* kStops[] = {"TAA", "TGA", "TAG"};

void append_dna(std::string& text, Draws& d) {
  for (int remaining = d.between(4, 12); remaining > 0; --remaining) text += "ACGT"[d.below(4)];
  text += "TATAATATG";  // promoter box and start codon
  for (int remaining = d.between(8, 24); remaining > 0; --remaining) text += d.skewed(kCodons);
  text += std::string(d.skewed(kStops)) + '\n';
}

// --- markup: tags close in the reverse order of opening --------------------------------------------------------------

constexpr const char* kTagNames[] = {"div", "p", "b", "ul", "li", "span", "h2"};
constexpr const char* kClasses[] = {"note", "main", "wide", "card"};

void append_element(std::string& text, Draws& d, int depth) {
  const std::string tag = d.skewed(kTagNames);
  text += '<' + tag;
  if (d.chance(0.4)) text += " class='" + std::string(d.skewed(kClasses)) + '\'';
  text += '>';
  if (depth < 3 && d.chance(0.6))
    for (int remaining = d.between(1, 2); remaining > 0; --remaining) append_element(text, d, depth + 1);
  else
    text += d.skewed(kAdjectives);
  text += "</" + tag + '>';
}

void append_markup(std::string& text, Draws& d) {
  append_element(text, d, 0);
  text += '\n';
}

// --- log: time rises, each level has its own messages ----------------------------------------------------------------

void append_log(std::string& text, Draws& d) {
  static constexpr const char* kEvents[] = {"INFO  request served in ", "INFO  cache filled in ",
                                            "WARN  slow disk, waited ", "ERROR connection lost after "};
  int second = d.between(0, 86000);
  char line[96];
  for (int remaining = d.between(3, 6); remaining > 0; --remaining) {
    second += d.between(0, 20);
    std::snprintf(line, sizeof line, "%02d:%02d:%02d worker-%d ", second / 3600, second / 60 % 60, second % 60,
                  d.between(0, 3));
    text += line;
    Out{text} << d.skewed(kEvents) << d.between(1, 40) * 5 << " ms\n";
  }
}

// --- counting: arithmetic progressions -------------------------------------------------------------------------------

void append_counting(std::string& text, Draws& d) {
  const int step = d.between(1, 12);
  int value = d.between(0, 60);
  text += fmt::format("by {}:", step);
  for (int remaining = d.between(6, 14); remaining > 0; --remaining, value += step) text += fmt::format(" {}", value);
  text += '\n';
}

// --- Morse: capital words, then their code ---------------------------------------------------------------------------

constexpr const char* kMorse[] = {".-",   "-...", "-.-.", "-..",  ".",   "..-.", "--.",  "....", "..",
                                  ".---", "-.-",  ".-..", "--",   "-.",  "---",  ".--.", "--.-", ".-.",
                                  "...",  "-",    "..-",  "...-", ".--", "-..-", "-.--", "--.."};
constexpr const char* kSignals[] = {"SOS", "HELLO", "WEATHER", "SHIP", "NORTH", "QUICK",
                                    "FOX", "BAY",   "ZERO",    "JUMP", "LIVE"};

void append_morse(std::string& text, Draws& d) {
  const std::string word = d.skewed(kSignals);
  text += word + ' ';
  for (const char letter : word) text += std::string(kMorse[letter - 'A']) + '/';
  text += '\n';
}

constexpr Domain kDomains[] = {
    {"prose", append_prose},       {"code", append_code},  {"arithmetic", append_arithmetic}, {"JSON", append_json},
    {"brackets", append_brackets}, {"DNA", append_dna},    {"markup", append_markup},         {"log", append_log},
    {"counting", append_counting}, {"Morse", append_morse}};
static_assert(std::ranges::equal(
    kDomains, kPassageDomains, {}, [](const Domain& domain) { return std::string_view(domain.name); },
    [](const char* name) { return std::string_view(name); }));

}  // namespace

std::span<const Domain> generated_domains(Generator generator) {
  if (generator == Generator::facts) return kLanguageDomains;
  return kDomains;
}

}  // namespace moescope
