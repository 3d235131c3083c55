#include "widgets/microscaling/precision_twins_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/comparison/verdict.h"
#include "widgets/microscaling/share_delegate.h"
#include "widgets/panel/csv.h"
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

// "mxfp8_nvidia and torchtitan_mxfp8 stay within 0.25 % of the loss"; empty: none was measured.
QString fitText(const PrecisionScan& scan) {
  QStringList within;
  for (const PublishedFit& fit : scan.published)
    if (fit_of(fit, scan.loss, kMatters) == Fit::within) within << QString::fromStdString(fit.name);
  if (scan.published.empty()) return {};
  const QString target = QString("within %1 of the loss").arg(formatPercent(kMatters));
  if (within.isEmpty()) return QString("No published recipe is known to stay %1").arg(target);
  const QString last = within.takeLast();
  return within.isEmpty()
             ? QString("Of published recipes %1 stays %2").arg(last, target)
             : QString("Of published recipes %1 and %2 stay %3").arg(within.join(QStringLiteral(", ")), last, target);
}

bool toldApart(const FigureOfPieces& behind) {
  return behind.mean > behind.interval;  // false if the interval is NaN
}

}  // namespace

std::vector<Recipe> forwardRecipes() {
  std::vector<Recipe> found;
  const auto same = [](Recipe a, Recipe b) {
    return std::ranges::all_of(std::array{OperandRole::x, OperandRole::w}, [&](OperandRole operand) {
      return recipe_format(a, Direction::forward, operand) == recipe_format(b, Direction::forward, operand);
    });
  };
  for (const RecipeInfo& info : recipes())
    if (info.recipe != Recipe::fp32 &&
        std::ranges::none_of(found, [&](Recipe before) { return same(before, info.recipe); }))
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
  const double most = scan.twins.empty() ? 0 : scan.twins.front().divergence.mean;
  for (const PrecisionTwin& twin : scan.twins) {
    auto* name = new QStandardItem(fullName(twin));
    name->setData(name->text(), Qt::UserRole);
    name->setToolTip(twin.behind.mean > 0 && !toldApart(twin.behind)
                         ? QString("Not told apart from the operand with the largest divergence of its kind")
                         : name->text());
    model.appendRow({name, figureItem(divergenceText(twin.divergence), twin.divergence.mean),
                     figureItem(lossText(twin.loss_change), twin.loss_change.mean),
                     figureItem(formatPercent(twin.flips.mean), twin.flips.mean)});
    model.item(model.rowCount() - 1, kDivergenceColumn)
        ->setData(most > 0 ? twin.divergence.mean / most : 0, kShareRole);
    for (int column = 0; column < model.columnCount(); ++column)
      model.item(model.rowCount() - 1, column)->setEditable(false);
  }
  for (const PublishedFit& fit : scan.published) {
    auto* name = new QStandardItem(QString("recipe %1").arg(QString::fromStdString(fit.name)));
    name->setData(name->text(), Qt::UserRole);
    name->setToolTip(
        QString("What this published recipe rounds in its forward pass, the gate in FP32. A loss change of "
                "%1 nats/token matters, %2 of the loss; this one: %3")
            .arg(inPrint(QString::number(kMatters * scan.loss, 'g', 2)), formatPercent(kMatters),
                 QLatin1String(to_text(fit_of(fit, scan.loss, kMatters)))));
    model.appendRow({name, figureItem(divergenceText(fit.divergence), fit.divergence.mean),
                     figureItem(lossText(fit.loss_change), fit.loss_change.mean), new QStandardItem()});
    model.item(model.rowCount() - 1, kDivergenceColumn)
        ->setData(most > 0 ? std::min(1.0, fit.divergence.mean / most) : 0, kShareRole);
    for (int column = 0; column < model.columnCount(); ++column)
      model.item(model.rowCount() - 1, column)->setEditable(false);
  }
}

QStringList twinsAnswers(const PrecisionScan& scan) {
  const PrecisionTwin* worst = scan.costliest();
  if (!worst) return {};
  const QString operand =
      QString("%1 of %2").arg(QLatin1String(operand_name(worst->operand)), gemmClassLabel(worst->gemm_class));
  const QString who = (worst->layer < 0 ? operand : QString("%1 in %2").arg(operand, layerName(worst->layer))) +
                      QString(" suffers most");
  const QString figure = QString("%1: divergence %2 nats/token").arg(who, divergenceText(worst->divergence));
  const auto near = std::ranges::count_if(scan.twins, [&](const PrecisionTwin& twin) {
    return twin.scope == Scope::one_layer && &twin != worst && !toldApart(twin.behind);
  });
  const QString others = near == 0 ? QString() : QString("; %1 not told apart from it").arg(near);
  const PrecisionTwin& all = scan.twins.front();
  const QString together = QString("%1%2. All operands together: %3, loss %4")
                               .arg(figure, others, divergenceText(all.divergence), lossText(all.loss_change));
  const QString fit = fitText(scan);
  QStringList answers{together, figure + others, figure, who};
  if (!fit.isEmpty())
    answers = QStringList{QString("%1. %2").arg(together, fit), QString("%1%2. %3").arg(figure, others, fit)} + answers;
  return answers;
}

QString twinsCsv(const PrecisionScan& scan) {
  QString text = QStringLiteral(
      "recipe,layers,class,operand,divergence [nats/token],interval,behind the first of its kind [nats/token],"
      "interval,loss change [nats/token],interval,tokens with other experts [%],interval\n");
  for (const PrecisionTwin& twin : scan.twins) {
    const bool all = twin.scope == Scope::all_operands;
    text += QStringLiteral("%1,%2,%3,%4,")
                .arg(QLatin1String(recipe_info(scan.recipe).name),
                     twin.scope == Scope::one_layer ? (twin.layer < 0 ? QString() : QString::number(twin.layer))
                                                    : QString("all"),
                     all ? QString("all") : QLatin1String(gemm_class_name(twin.gemm_class)),
                     all ? QString("all") : QLatin1String(operand_name(twin.operand)));
    QStringList figures;
    for (const FigureOfPieces& figure : {twin.divergence, twin.behind, twin.loss_change, twin.flips}) {
      const double factor = figures.size() == 6 ? 100 : 1;
      figures << digits(factor * figure.mean, 6)
              << (std::isnan(figure.interval) ? QString() : digits(factor * figure.interval, 3));
    }
    text += figures.join(QLatin1Char(',')) + QLatin1Char('\n');
  }
  const auto cells = [](const FigureOfPieces& figure) {
    return digits(figure.mean, 6) + QLatin1Char(',') +
           (std::isnan(figure.interval) ? QString() : digits(figure.interval, 3));
  };
  for (const PublishedFit& fit : scan.published)
    text += QStringLiteral("%1,,,,%2,,,%3,,\n")
                .arg(QString::fromStdString(fit.name), cells(fit.divergence), cells(fit.loss_change));
  return text;
}

}  // namespace moescope
