#include "core/config/mixture.h"

#include <algorithm>
#include <stdexcept>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/files/text/words.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

constexpr double kMaxWeight = 1e6;

// Splits at the last '=', because the name of a file may contain others.
std::pair<std::string, double> parse_share(std::string_view entry) {
  const std::size_t equals = entry.rfind('=');
  double weight = -1;
  if (equals != std::string_view::npos && !read_number(trimmed(entry.substr(equals + 1)), weight)) weight = -1;
  std::string domain(trimmed(entry.substr(0, equals)));
  if (domain.empty() || !(weight >= 0 && weight <= kMaxWeight))
    throw std::invalid_argument("\"" + std::string(entry) +
                                "\": choose DOMAIN=WEIGHT with a weight from 0 to 1000000, such as prose=0.5");
  return {std::move(domain), weight};
}

}  // namespace

std::vector<std::string> generated_domain_names(Generator generator) {
  if (generator == Generator::facts) return {kFactLanguages.begin(), kFactLanguages.end()};
  return {kPassageDomains.begin(), kPassageDomains.end()};
}

MixtureEntries parse_mixture(std::string_view text) {
  MixtureEntries entries;
  if (trimmed(text).empty()) return entries;
  double sum = 0;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    auto entry = parse_share(trimmed(text.substr(0, comma)));
    for (const auto& [domain, weight] : entries)
      if (domain == entry.first)
        throw std::invalid_argument("domain \"" + domain + "\" occurs twice: choose one weight");
    sum += entry.second;
    entries.push_back(std::move(entry));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  if (!(sum > 0)) throw std::invalid_argument("all weights are 0: choose a positive one for at least one domain");
  return entries;
}

std::string mixture_text(const MixtureEntries& entries) {
  return joined(entries, ", ", [](const auto& entry) { return entry.first + '=' + to_string(entry.second); });
}

std::vector<double> mixture_weights(std::string_view text, const std::vector<std::string>& domains) {
  const MixtureEntries entries = parse_mixture(text);
  if (entries.empty()) return {};
  std::vector<double> weights(domains.size(), 0.0);
  const auto other_domains = std::ranges::find(entries, std::string("*"), &MixtureEntries::value_type::first);
  if (other_domains != entries.end()) std::ranges::fill(weights, other_domains->second);
  double sum = 0;
  for (const auto& [domain, weight] : entries) {
    const auto at = std::ranges::find(domains, domain);
    if (at != domains.end()) {
      weights[at - domains.begin()] = weight;
    } else if (domain != "*") {
      throw std::invalid_argument("there is no domain \"" + domain + "\": choose out of " + joined(domains, ", ") +
                                  " and *");
    }
  }
  for (const double weight : weights) sum += weight;
  if (!(sum > 0)) throw std::invalid_argument("no domain has a weight: choose a positive one for at least one domain");
  return weights;
}

Mixture::Mixture(const std::vector<double>& weights, std::int64_t seed)
    : offset_(RandomStream(seed, "data.mixture").bits(0)) {
  double sum = 0, end = 0;
  for (const double weight : weights) sum += weight;
  for (const double weight : weights) ends_.push_back((end += weight) / sum);
}

int Mixture::domain_of(std::uint64_t sequence) const {
  const double place = ((offset_ + sequence * 0x9E3779B97F4A7C15) >> 11) * 0x1p-53;
  const auto found = std::upper_bound(ends_.begin(), ends_.end(), place);
  if (found != ends_.end()) return to_int(found - ends_.begin());
  // Rounding can leave the last end below 1: the last domain with a weight takes the rest.
  return to_int(std::lower_bound(ends_.begin(), ends_.end(), ends_.back()) - ends_.begin());
}

}  // namespace moescope
