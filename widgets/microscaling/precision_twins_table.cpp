#include "widgets/microscaling/precision_twins_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/findings/comparison/verdict.h"
#include "widgets/microscaling/tables.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {

namespace {

using Scope = PrecisionTwin::Scope;

QString layersOf(const PrecisionTwin& twin) {
  if (twin.scope == Scope::all_layers) return QString("all layers");
  return twin.layer < 0 ? QString() : layerName(twin.layer);
}

// "layer 3, routed experts, x".
QString fullName(const PrecisionTwin& twin) {
  if (twin.scope == Scope::all_operands) return QString("all operands");
  const QString layers = layersOf(twin);
  return (layers.isEmpty() ? layers : layers + QStringLiteral(", ")) + gemmClassLabel(twin.gemm_class) +
         QStringLiteral(", ") + QLatin1String(operand_name(twin.operand));
}

QString interval(const FigureOfPieces& figure, const QString& mean, double factor = 1) {
  if (std::isnan(figure.interval)) return mean;
  return mean + QStringLiteral(" \u00b1 ") + inPrint(QString::number(factor * figure.interval, 'g', 2));
}

QString divergenceText(const FigureOfPieces& figure) {
  return interval(figure, inPrint(QString::number(figure.mean, 'g', 3)));
}

QString lossText(const FigureOfPieces& figure) {
  return interval(figure, signedText(figure.mean));
}

// "Published recipes mxfp8_nvidia and torchtitan_mxfp8 stay within 0.25 % of the loss"; empty if no published recipe
// was measured.
QString fitText(const PrecisionScan& scan) {
  QStringList within;
  for (const PublishedFit& fit : scan.published)
    if (fit_of(fit, scan.loss, kRelevantGap) == Fit::within) within << QString::fromStdString(fit.name);
  if (scan.published.empty()) return {};
  const QString target = QString("within %1 of the loss").arg(formatPercent(kRelevantGap));
  if (within.isEmpty()) return QString("No published recipe is known to stay %1").arg(target);
  const QString last = within.takeLast();
  return within.isEmpty()
             ? QString("Published recipe %1 stays %2").arg(last, target)
             : QString("Published recipes %1 and %2 stay %3").arg(within.join(QStringLiteral(", ")), last, target);
}

bool toldApart(const FigureOfPieces& behind) {
  return behind.mean > behind.interval;  // false if the interval is NaN
}

}  // namespace

std::vector<Recipe> forwardRecipes() {
  std::vector<Recipe> found;
  const auto are_equal = [](Recipe a, Recipe b) {
    return std::ranges::all_of(std::array{OperandRole::x, OperandRole::w}, [&](OperandRole operand) {
      return recipe_format(a, Direction::forward, operand) == recipe_format(b, Direction::forward, operand);
    });
  };
  for (const RecipeInfo& info : recipes())
    if (info.recipe != Recipe::fp32 &&
        std::ranges::none_of(found, [&](Recipe before) { return are_equal(before, info.recipe); }))
      found.push_back(info.recipe);
  return found;
}

void fillTwins(QStandardItemModel& model, const PrecisionScan& scan) {
  model.clear();
  model.setSortRole(Qt::UserRole);
  model.setHorizontalHeaderLabels({"Operand", "Divergence, nats", "Loss change, nats", "Routing flips"});
  model.horizontalHeaderItem(0)->setToolTip("Layer, class and operand; only this operand was rounded");
  model.horizontalHeaderItem(1)->setToolTip(
      "Kullback-Leibler divergence from the predictions in FP32, nats/token, measured, with a 95 % interval over "
      "pieces of text");
  model.horizontalHeaderItem(2)->setToolTip(
      "Change of the cross-entropy, nats/token, measured, with a 95 % interval over pieces of text");
  model.horizontalHeaderItem(3)->setToolTip(
      "Share of tokens with a changed set of experts, mean over layers, measured");
  const double largest = scan.twins.empty() ? 0 : scan.twins.front().divergence.mean;
  for (const PrecisionTwin& twin : scan.twins) {
    const QString tip = twin.behind.mean > 0 && !toldApart(twin.behind)
                            ? QString("Not told apart from the operand with the largest divergence of its kind")
                            : fullName(twin);
    appendOperand(model,
                  {textItem(fullName(twin), tip), figureItem(divergenceText(twin.divergence), twin.divergence.mean),
                   figureItem(lossText(twin.loss_change), twin.loss_change.mean),
                   figureItem(formatPercent(twin.flips.mean), twin.flips.mean)},
                  largest > 0 ? twin.divergence.mean / largest : 0);
  }
  for (const PublishedFit& fit : scan.published) {
    const QString tip =
        QString(
            "Forward pass with the operands that this published recipe rounds; the gate is in FP32. A "
            "loss change of %1 nats/token (%2 of the loss) matters; the change of this recipe: %3")
            .arg(inPrint(QString::number(kRelevantGap * scan.loss, 'g', 2)), formatPercent(kRelevantGap),
                 QLatin1String(to_text(fit_of(fit, scan.loss, kRelevantGap))));
    appendOperand(model,
                  {textItem(QString("recipe %1").arg(QString::fromStdString(fit.name)), tip),
                   figureItem(divergenceText(fit.divergence), fit.divergence.mean),
                   figureItem(lossText(fit.loss_change), fit.loss_change.mean), new QStandardItem()},
                  largest > 0 ? std::min(1.0, fit.divergence.mean / largest) : 0);
  }
}

QStringList twinsAnswers(const PrecisionScan& scan) {
  const PrecisionTwin* worst = scan.costliest();
  if (!worst) return {};
  const QString operand =
      QString("%1 of %2").arg(QLatin1String(operand_name(worst->operand)), gemmClassLabel(worst->gemm_class));
  const QString operand_text =
      (worst->layer < 0 ? operand : QString("%1 in %2").arg(operand, layerName(worst->layer))) +
      QString(" is the most sensitive");
  const QString figure = QString("%1: divergence %2 nats/token").arg(operand_text, divergenceText(worst->divergence));
  const auto near = std::ranges::count_if(scan.twins, [&](const PrecisionTwin& twin) {
    return twin.scope == Scope::one_layer && &twin != worst && !toldApart(twin.behind);
  });
  const QString undecided = near == 0 ? QString() : QString("; %1 not told apart from it").arg(near);
  const PrecisionTwin& all = scan.twins.front();
  const QString together = QString("%1%2. All operands together: %3, loss %4")
                               .arg(figure, undecided, divergenceText(all.divergence), lossText(all.loss_change));
  const QString fit = fitText(scan);
  QStringList answers{together, figure + undecided, figure, operand_text};
  if (!fit.isEmpty())
    answers =
        QStringList{QString("%1. %2").arg(together, fit), QString("%1%2. %3").arg(figure, undecided, fit)} + answers;
  return answers;
}

ValueTable twinsTable(const PrecisionScan& scan) {
  std::vector<ValueColumn> columns{{"recipe"}, {"layers"}, {"class"}, {"operand"}};
  for (const auto& [name, unit] : {std::pair{"divergence", "nats/token"},
                                   {"behind the first of its kind", "nats/token"},
                                   {"loss change", "nats/token"},
                                   {"tokens with other experts", "share"}}) {
    columns.push_back({name, unit});
    columns.push_back({std::string("interval of: ") + name, unit});
  }
  ValueTable table(std::move(columns));
  const auto add = [&](const std::string& recipe, const std::array<std::string, 3>& place,
                       const std::array<FigureOfPieces, 4>& figures) {
    std::vector<TableValue> row{recipe, place[0], place[1], place[2]};
    for (const FigureOfPieces& figure : figures)
      row.insert(row.end(), {unless_nan(figure.mean), unless_nan(figure.interval)});
    table.add_row(row);
  };
  for (const PrecisionTwin& twin : scan.twins) {
    const bool all = twin.scope == Scope::all_operands;
    const std::string layer = twin.layer < 0 ? "" : std::to_string(twin.layer);
    add(recipe_info(scan.recipe).name,
        {twin.scope == Scope::one_layer ? layer : "all", all ? "all" : gemm_class_name(twin.gemm_class),
         all ? "all" : operand_name(twin.operand)},
        {twin.divergence, twin.behind, twin.loss_change, twin.flips});
  }
  constexpr FigureOfPieces kUnknown{NAN, NAN};
  for (const PublishedFit& fit : scan.published)
    add(fit.name, {}, {fit.divergence, kUnknown, fit.loss_change, kUnknown});
  return table;
}

}  // namespace moescope
