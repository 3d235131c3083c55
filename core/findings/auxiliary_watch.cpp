#include "core/findings/auxiliary_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/files/text/no_value.h"
#include "core/files/text/words.h"

namespace moescope {

namespace {

constexpr std::size_t kAuxBlocks = 10;  // blocks of a mean, 100 steps

}  // namespace

void AuxiliaryWatch::Condition::follow(bool holds, std::int64_t first) {
  if (!holds)
    first_step = -1;
  else if (first_step < 0)
    first_step = first;
}

double AuxiliaryWatch::mean(double Means::*member) const {
  std::vector<float> values;
  for (const Means& block : blocks_) values.push_back(static_cast<float>(block.*member));
  return mean_of_finite(values);
}

void AuxiliaryWatch::block(std::int64_t first, std::span<const float> ce, std::span<const float> aux,
                           std::span<const float> z, const AuxiliaryFactors& factors) {
  if (first_step_ < 0) first_step_ = first;
  last_step_ = first + std::ssize(ce) - 1;
  factors_ = factors;
  if (std::ssize(ce) != FindingsScan::kBlock) return;
  blocks_.push_back({mean_of_finite(ce), mean_of_finite(aux), mean_of_finite(z)});
  if (blocks_.size() > kAuxBlocks) blocks_.pop_front();
  if (blocks_.size() < kAuxBlocks) return;
  const double min_contribution = kAuxNoted * mean(&Means::ce);
  const std::int64_t begin = std::max(first_step_, last_step_ - std::ssize(blocks_) * FindingsScan::kBlock + 1);
  aux_.follow(factors.balance && *factors.balance * mean(&Means::aux) >= min_contribution, begin);
  z_.follow(factors.z && *factors.z * mean(&Means::z) >= min_contribution, begin);
}

std::optional<Finding> AuxiliaryWatch::make(const Condition& condition, double logged, std::optional<double> factor,
                                            const char* name) const {
  if (condition.first_step < 0 || !factor) return std::nullopt;
  const double ce = mean(&Means::ce), added = *factor * logged;
  Finding finding = finding_of(FindingKind::auxiliary_dominates, run_, {condition.first_step, last_step_});
  if (added >= kAuxRules * ce) finding.severity = Severity::warning;
  finding.title = std::string("The ") + name + " outweighs the cross-entropy";
  const std::string parts =
      *factor == 1 ? "" : " (" + decimal(logged, 3) + " in the log times " + decimal(*factor) + ")";
  finding.observation =
      "It is " + decimal(added, 3) + parts + " against " + decimal(ce, 3) + " nats/token (means of 100 steps).";
  return finding;
}

void AuxiliaryWatch::findings(std::vector<Finding>& out, std::optional<double> even_aux) const {
  if (auto aux = make(aux_, mean(&Means::aux), factors_.balance, "auxiliary loss")) {
    aux->knobs = {&RouterConfig::aux_coeff, &RouterConfig::aux_mode};
    if (even_aux)
      aux->observation +=
          " At an even load it would be " + decimal(*even_aux, 3) + " (the coefficient times the number of layers).";
    aux->meaning =
        "The gates are trained on the sum, so that an uneven load affects them more than the text does. This number "
        "does not show the cost: compare the mutual information, and the loss of a run with a smaller coefficient.";
    out.push_back(std::move(*aux));
  }
  if (auto z = make(z_, mean(&Means::z), factors_.z, "router z-loss")) {
    z->knobs = {&RouterConfig::z_coeff};
    z->meaning =
        "The z-loss pulls the logits of the router towards 0, where all experts have equal scores: a router that "
        "mainly minimises it does not distinguish experts. Its purpose is to keep large logits from growing; for that "
        "it should be small beside the cross-entropy.";
    out.push_back(std::move(*z));
  }
}

}  // namespace moescope
