// Generates text of labelled domains with structure that can be learnt: sums are right, brackets match, schemas hold.
//
// Each domain has its own byte statistics, so that experts can specialise. No file is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/config/run_config.h"
#include "core/numerics/elementary.h"
#include "core/numerics/rng.h"

namespace moescope {

// Sequential draws from a section of 2^32 numbers of a random stream.
class Draws {
 public:
  Draws(const RandomStream& stream, std::uint64_t section) : stream_(stream), next_(section << 32) {}

  std::uint32_t below(std::uint32_t n) {  // uniform in [0, n), n > 0
    return static_cast<std::uint32_t>(((stream_.bits(next_++) >> 32) * n) >> 32);
  }
  std::uint64_t below64(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(stream_.bits(next_++)) * n) >> 64);
  }
  int between(int first, int last) { return first + static_cast<int>(below(last - first + 1)); }
  bool chance(double probability) { return stream_.uniform(next_++) < probability; }
  template <class T, std::size_t N>
  const T& uniform(const T (&choices)[N]) {
    return choices[below(N)];
  }
  // Draws earlier choices more often: choice r with a weight of about 1 / (r + 1), by r = (N + 1)^u - 1 rounded down, u
  // uniform.
  template <class T, std::size_t N>
  const T& skewed(const T (&choices)[N]) {
    const double rank = ordered_pow(N + 1, stream_.uniform(next_++)) - 1;
    return choices[static_cast<std::size_t>(rank) < N ? static_cast<std::size_t>(rank) : N - 1];
  }

 private:
  const RandomStream& stream_;
  std::uint64_t next_;
};

struct Domain {
  const char* name;
  void (*append_document)(std::string& text, Draws& draws);  // appends at least one byte
};
// Returns the domains in the order of generated_domain_names(). Documents of passages end with a line feed.
std::span<const Domain> generated_domains(Generator generator);

}  // namespace moescope
