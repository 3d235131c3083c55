#include "core/data/facts.h"

#include <array>
#include <string_view>
#include <utility>

#include "core/config/mixture.h"

namespace moescope {
namespace {

constexpr std::string_view kSymbols = "abcdefghijklmnopqrstuvwxyz0123456789+-*/=<>()[]{}.,;:!?&%$#";
static_assert(kSymbols.size() == 59);
constexpr double kRandomSymbols = 0.01;  // share of symbols that no fact determines
constexpr int kSymbolsPerDocument = 32;

char random_symbol(Draws& draws) {
  return kSymbols[draws.below(static_cast<std::uint32_t>(kSymbols.size()))];
}

using Successors = std::array<char, 128>;  // by symbol

// Returns the symbols in an order of the language's own: each is followed by the next, the last by the first.
Successors shuffled_cycle(std::size_t language) {
  const RandomStream stream(0, "data.facts");
  Draws draws(stream, language);
  std::string order(kSymbols);
  for (auto left = static_cast<std::uint32_t>(order.size()); left > 1; --left)
    std::swap(order[left - 1], order[draws.below(left)]);
  Successors next{};
  for (std::size_t i = 0; i < order.size(); ++i)
    next[static_cast<std::size_t>(order[i])] = order[(i + 1) % order.size()];
  return next;
}

template <std::size_t language>
void append_facts(std::string& text, Draws& draws) {
  static const Successors next = shuffled_cycle(language);
  char symbol = text.empty() ? random_symbol(draws) : text.back();
  for (int left = kSymbolsPerDocument; left > 0; --left) {
    symbol = draws.chance(kRandomSymbols) ? random_symbol(draws) : next[static_cast<std::size_t>(symbol)];
    text += kFactLanguages[language];
    text += symbol;
  }
}

template <std::size_t... language>
constexpr auto languages(std::index_sequence<language...>) {
  return std::array{Domain{kFactLanguages[language], append_facts<language>}...};
}
constexpr auto kLanguages = languages(std::make_index_sequence<kFactLanguages.size()>());

}  // namespace

std::span<const Domain> fact_languages() {
  return kLanguages;
}

}  // namespace moescope
