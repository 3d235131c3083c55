// Watches whether an auxiliary loss outweighs the cross-entropy.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/findings/findings.h"

namespace moescope {

// An auxiliary loss as large as the cross-entropy gives a note, three times as large a warning.
inline constexpr double kAuxNoted = 1, kAuxRules = 3;

// What turns a value into the part of the loss that the gradient is taken of. 1 for runs of this program, which records
// that part. transformers and Megatron-LM log the loss before its coefficient, transformers also without dividing it by
// top_k. nullopt: the coefficient is not known, so that the value cannot be compared with the cross-entropy.
struct AuxiliaryFactors {
  std::optional<double> balance, z;
};

class AuxiliaryWatch {
 public:
  explicit AuxiliaryWatch(int run) : run_(run) {}
  // Values of successive steps as logged; kNoValue: not in the source.
  void block(std::int64_t first, std::span<const float> ce, std::span<const float> aux, std::span<const float> z,
             const AuxiliaryFactors& factors);
  // `even_aux`: value of the auxiliary losses at an even load; nullopt: not known.
  void findings(std::vector<Finding>& out, std::optional<double> even_aux) const;

 private:
  struct Means {
    double ce, aux, z;
  };
  struct Condition {
    std::int64_t first_step = -1;
    void follow(bool holds, std::int64_t first);
  };
  double mean(double Means::*member) const;
  std::optional<Finding> make(const Condition& condition, double logged, std::optional<double> factor,
                              const char* name) const;

  int run_;
  std::int64_t first_step_ = -1, last_step_ = -1;
  std::deque<Means> blocks_;  // whole blocks, newest last
  AuxiliaryFactors factors_;
  Condition aux_, z_;
};

}  // namespace moescope
