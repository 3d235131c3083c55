#include "widgets/text/expert_tables.h"

#include <algorithm>
#include <cmath>

#include "widgets/look/counted_text.h"

namespace moescope {

double ExpertGrid::largest() const {
  double largest_mean = least_scale;
  for (const FigureOfPieces& figure : cells)
    if (std::isfinite(figure.mean)) largest_mean = std::max(largest_mean, std::fabs(figure.mean));
  return largest_mean;
}

std::vector<std::uint8_t> ExpertGrid::codes() const {
  const double scale_end = largest();
  std::vector<std::uint8_t> codes;
  for (const FigureOfPieces& figure : cells) {
    const double position = scale_end > 0 ? 0.5 + figure.mean / (2 * scale_end) : 0.5;
    codes.push_back(std::isnan(figure.mean) ? kNoDataCode : divergingCode(position));
  }
  return codes;
}

LegendScale ExpertGrid::legend(bool dark) const {
  const double scale_end = largest();
  LegendScale legend{.lut = utilisationLut(dark), .low = {}, .high = {}, .caption = unit, .first_code = 2};
  if (scale_end <= 0) return legend;
  legend.low = inPrint(QString::number(-scale_end, 'g', 2));
  legend.high = QStringLiteral("+") + withMinus(QString::number(scale_end, 'g', 2));
  return legend;
}

ExpertGrid costsByDomain(const ExpertScan& scan, int layer) {
  ExpertGrid table{
      .rows = {"all text"}, .row_title = "change of the loss without the expert, nats/token", .column_title = "expert"};
  int experts = 0;
  for (const ExpertCost& cost : scan.experts) experts = std::max(experts, cost.expert + 1);
  const bool by_domain = scan.domains.size() > 1;
  if (by_domain)
    for (const std::string& domain : scan.domains) table.rows << QString::fromStdString(domain);
  for (int e = 0; e < experts; ++e) table.columns << QString::number(e);
  table.cells.assign(table.rows.size() * experts, {std::nan(""), std::nan("")});
  for (const ExpertCost& cost : scan.experts) {
    if (cost.layer != layer) continue;
    const auto at = [&](std::size_t row) -> FigureOfPieces& { return table.cells[row * experts + cost.expert]; };
    at(0) = cost.loss_change;
    for (std::size_t domain = 0; by_domain && domain < cost.loss_by_domain.size(); ++domain)
      at(domain + 1) = cost.loss_by_domain[domain];
  }
  return table;
}

ExpertGrid prunedModels(const ExpertScan& scan) {
  ExpertGrid table{.rows = {"smallest divergence", "smallest saliency", "random choice"},
                   .row_title = "change of the loss, nats/token, by number of experts removed from every layer"};
  int experts = 0;
  for (const ExpertCost& cost : scan.experts) experts = std::max(experts, cost.expert + 1);
  for (const PrunedModel& model : scan.pruning) table.columns << QString("%1 of %2").arg(model.removed).arg(experts);
  for (const auto figure : {&PrunedModel::by_divergence, &PrunedModel::by_saliency, &PrunedModel::random})
    for (const PrunedModel& model : scan.pruning) table.cells.push_back(model.*figure);
  return table;
}

QStringList costAnswers(const ExpertScan& scan) {
  if (scan.experts.empty()) return {};
  const ExpertCost& first = scan.experts.front();
  const QString expert_text = QString("Expert %1 of layer %2").arg(first.expert).arg(first.layer);
  const QString loss = QString("%1: loss %2 nats/token without it").arg(expert_text, lossChangeText(first.loss_change));
  // A change whose interval holds 0 is not told apart from no change.
  const auto needed = std::ranges::count_if(
      scan.experts, [](const ExpertCost& cost) { return cost.loss_change.mean - cost.loss_change.interval > 0; });
  return {QString("%1; the loss rises by more than its interval without %2 of the %3 experts")
              .arg(loss)
              .arg(needed)
              .arg(scan.experts.size()),
          loss, QString("%1: loss %2").arg(expert_text, lossChangeText(first.loss_change.mean)), expert_text};
}

ExpertGrid similarExperts(const LayerSimilarity& layer, const std::vector<int>& order) {
  ExpertGrid table{.rows = {},
                   .row_title = "cosine of two experts' outputs for the same token",
                   .unit = "cosine",
                   .least_scale = 0.2};
  for (const int expert : order) table.rows << QString::number(expert);
  table.columns = table.rows;
  for (const int i : order)
    for (const int j : order)
      table.cells.push_back(i == j ? FigureOfPieces{std::nan(""), std::nan("")} : layer.cosine(i, j));
  return table;
}

QString cosineText(const FigureOfPieces& cosine) {
  const QString mean = inPrint(QString::number(cosine.mean, 'f', 3));
  return std::isnan(cosine.interval) ? mean
                                     : mean + QStringLiteral(" \u00b1 ") + QString::number(cosine.interval, 'f', 3);
}

// Names the pair with the largest cosine, and states the mean cosine of all pairs.
QStringList similarityAnswers(const LayerSimilarity& layer) {
  int first = 0, second = 0;
  double sum = 0;
  for (int i = 0; i < layer.experts(); ++i)
    for (int j = i + 1; j < layer.experts(); ++j) {
      sum += layer.cosine(i, j).mean;
      if (first == second || layer.cosine(i, j).mean > layer.cosine(first, second).mean) {
        first = i;
        second = j;
      }
    }
  if (first == second) return {};
  const FigureOfPieces& most_similar = layer.cosine(first, second);
  const QString pair = QString("Experts %1 and %2").arg(first).arg(second);
  const double pairs = layer.experts() * (layer.experts() - 1) / 2.0;
  return {
      QString("%1: cosine %2; mean of all pairs %3")
          .arg(pair, cosineText(most_similar), inPrint(QString::number(sum / pairs, 'f', 3))),
      QString("%1: cosine %2").arg(pair, cosineText(most_similar)),
      QString("%1 and %2: cosine %3").arg(first).arg(second).arg(inPrint(QString::number(most_similar.mean, 'f', 2)))};
}

QStringList pruningAnswers(const ExpertScan& scan) {
  if (scan.pruning.empty()) return {};
  const PrunedModel& last = scan.pruning.back();
  const QString which = "Without " + countedText(last.removed, "expert of every layer");
  const QString best = QString("%1: loss %2 nats/token by divergence").arg(which, lossChangeText(last.by_divergence));
  return {QString("%1, %2 by saliency, %3 at random")
              .arg(best, lossChangeText(last.by_saliency), lossChangeText(last.random)),
          best, QString("%1: loss %2 by divergence").arg(which, lossChangeText(last.by_divergence.mean)), which};
}

ValueTable costsTable(const MeasuredExperts::ByStep& scans) {
  ValueTable table({"step", "layer", "expert", "load [fair shares]", "saliency", "divergence [nats/token]",
                    "interval of the divergence [nats/token]", "domain", "loss change without it [nats/token]",
                    "interval of the loss change [nats/token]"});
  for (const auto& [step, scan] : scans)
    for (const ExpertCost& cost : scan.experts) {
      const auto row = [&, step = step](const std::string& domain, const FigureOfPieces& loss) {
        if (!std::isnan(loss.mean))
          table.add(step, cost.layer, cost.expert, cost.load, cost.saliency, cost.divergence.mean,
                    unless_nan(cost.divergence.interval), domain, loss.mean, unless_nan(loss.interval));
      };
      row({}, cost.loss_change);
      for (std::size_t domain = 0; domain < cost.loss_by_domain.size(); ++domain)
        row(scan.domains[domain], cost.loss_by_domain[domain]);
    }
  return table;
}

ValueTable pruningTable(const MeasuredExperts::ByStep& scans) {
  std::vector<ValueColumn> columns{{"step"}, {"experts removed from every layer"}};
  for (const char* choice : {"by divergence", "by saliency", "random"}) {
    columns.push_back({std::string("loss change ") + choice, "nats/token"});
    columns.push_back({std::string("interval ") + choice, "nats/token"});
  }
  ValueTable table(std::move(columns));
  for (const auto& [step, scan] : scans)
    for (const PrunedModel& model : scan.pruning)
      table.add(step, model.removed, model.by_divergence.mean, unless_nan(model.by_divergence.interval),
                model.by_saliency.mean, unless_nan(model.by_saliency.interval), model.random.mean,
                unless_nan(model.random.interval));
  return table;
}

ValueTable similarityTable(const MeasuredSimilarity::ByStep& similarities) {
  ValueTable table({"step", "layer", "expert i", "expert j", "cosine of the outputs", "interval"});
  for (const auto& [step, similarity] : similarities)
    for (const LayerSimilarity& layer : similarity.layers)
      for (int i = 0; i < layer.experts(); ++i)
        for (int j = i + 1; j < layer.experts(); ++j)
          table.add(step, layer.layer(), i, j, layer.cosine(i, j).mean, unless_nan(layer.cosine(i, j).interval));
  return table;
}

}  // namespace moescope
