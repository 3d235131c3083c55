// The share of each domain in the batches: "code=1" (only this domain), "prose=0.5, JSON=2, *=1" (* is all others).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moescope {

enum class Generator;

// Domains of the text that the program generates, in their order. Languages of facts differ from the letters of runs.
inline constexpr std::array kPassageDomains = {"prose", "code",   "arithmetic", "JSON",     "brackets",
                                               "DNA",   "markup", "log",        "counting", "Morse"};
inline constexpr std::array kFactLanguages = {"Q", "R", "S", "T", "U", "V", "W", "X", "Y", "Z"};
std::vector<std::string> generated_domain_names(Generator generator);

using MixtureEntries = std::vector<std::pair<std::string, double>>;  // domain or "*", weight; in the order of the text

// Parses a mixture. Throws std::invalid_argument with the problem: an entry that is not DOMAIN=WEIGHT, a weight that is
// not from 0 to 1e6, a domain that occurs twice, or no positive weight.
MixtureEntries parse_mixture(std::string_view text);
std::string mixture_text(const MixtureEntries& entries);
// Returns one weight for each of `domains`, 0 for domains that are not named; empty for an empty text. Throws
// std::invalid_argument if a domain is unknown, naming the known ones, or if none of `domains` has a weight.
std::vector<double> mixture_weights(std::string_view text, const std::vector<std::string>& domains);

// Chooses the domain of each sequence of a run. Domains are evenly spread: any n consecutive sequences hold each domain
// n times its share, to within one or two. Sequence i takes the domain whose part of [0, 1) holds i times the golden
// ratio, plus an offset from the seed, modulo 1.
class Mixture {
 public:
  Mixture() = default;  // domains have their shares of the data set
  Mixture(const std::vector<double>& weights, std::int64_t seed);

  bool empty() const { return ends_.empty(); }
  int domain_of(std::uint64_t sequence) const;

 private:
  std::vector<double> ends_;  // upper end of each domain's part of [0, 1)
  std::uint64_t offset_ = 0;
};

}  // namespace moescope
