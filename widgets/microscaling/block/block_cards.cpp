#include "widgets/microscaling/block/block_cards.h"

#include <QPainter>
#include <cmath>

#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

QString inDigits(double value, int digits) {
  return withMinus(QString::number(value, 'g', digits));
}

QString fourDigits(double value) {
  return inDigits(value, 4);
}

BlockCard largestCard(const BlockAnatomy& block) {
  BlockCard card{"Largest value", inDigits(block.amax, 7), {}};
  if (block.amax_at < 0) {
    card.notes << QString("all values are 0");
  } else {
    const QString element = QString("element %1").arg(block.amax_at);
    const float value = block.elements[block.amax_at].value;
    card.notes << element + QStringLiteral(", ") + inDigits(value, 7) << element;
  }
  return card;
}

// Returns the card with the code of the largest value.
BlockCard codeCard(const BlockAnatomy& block) {
  BlockCard card{"Largest code", QStringLiteral("0"), {}};
  if (block.amax_at < 0) return card;
  const ElementAnatomy& e = block.elements[block.amax_at];
  const double max = traits(block.format.element).max;
  card.value = fourDigits(std::fabs(e.decoded));
  const QString scaled = fourDigits(std::fabs(e.scaled));
  const QString clips =
      block.sums.clipped == 0 ? QString("nothing clips") : QString("%1 clipped").arg(block.sums.clipped);
  card.notes << QString("from %1, at most %2: %3").arg(scaled, fourDigits(max), clips)
             << QString("from %1: %2").arg(scaled, clips) << clips;
  return card;
}

// Adds cards such as "Divided by 448" and "Rounded up"; FLOOR and CEIL divide by the power of two in 448.
void addMxCards(const BlockAnatomy& block, std::vector<BlockCard>& cards) {
  const FormatTraits& f = traits(block.format.element);
  const ScaleRule rule = block.format.rule;
  const double divisor = rule == ScaleRule::rceil ? static_cast<double>(f.max) : std::exp2(f.emax);
  const QString element = elementFormatLabel(block.format.element);
  cards.push_back({QString("Divided by %1").arg(fourDigits(divisor)),
                   fourDigits(block.amax / divisor),
                   {rule == ScaleRule::rceil ? QString("the largest %1").arg(element)
                                             : QString("the power of two in the largest %1").arg(element),
                    element}});
  QString rounded = QString("Rounded up");
  if (rule == ScaleRule::floor) rounded = QString("Rounded down");
  if (rule == ScaleRule::even) rounded = QString("Rounded to the mantissa, then down");
  cards.push_back({rounded,
                   formatPowerOfTwo(block.scale.code - 127),
                   {QString("scale %1").arg(inDigits(block.scale.value, 8)), scaleRuleLabel(rule)}});
  cards.push_back({"Scale byte", QString::number(block.scale.code), {"E8M0: exponent + 127", "E8M0"}});
}

void addNvfp4Cards(const BlockAnatomy& block, std::vector<BlockCard>& cards) {
  cards.push_back({"Divided by 6", fourDigits(static_cast<double>(block.amax) / 6), {"the largest E2M1", "E2M1"}});
  const double tensor = block.scale.tensor, quotient = tensor > 0 ? block.amax / 6.0 / tensor : 0;
  cards.push_back({"Scale of the tensor",
                   fourDigits(tensor),
                   {QString("largest of the tensor, %1, / (6 × 448)").arg(fourDigits(tensor * 6 * 448)),
                    QString("%1 / (6 × 448)").arg(fourDigits(tensor * 6 * 448))}});
  cards.push_back({"Scale of the block",
                   exactText(decode(ElementFormat::e4m3, block.scale.code)),
                   {QString("%1 rounded to E4M3: code %2; scale %3")
                        .arg(fourDigits(quotient))
                        .arg(block.scale.code)
                        .arg(fourDigits(block.scale.value)),
                    QString("%1 rounded to E4M3: code %2").arg(fourDigits(quotient)).arg(block.scale.code)}});
}

void addFp8Cards(const BlockAnatomy& block, std::vector<BlockCard>& cards) {
  const FormatTraits& f = traits(block.format.element);
  const double scale = block.scale.value;
  cards.push_back(
      {"Largest value with this scale",
       fourDigits(scale * f.max),
       {block.format.granularity == ScaleGranularity::block_1x128 ? QString("these 128 values")
                                                                  : QString("more than these 128 values")}});
  cards.push_back({QString("Divided by %1").arg(fourDigits(f.max)),
                   fourDigits(scale),
                   {QString("the largest %1").arg(elementFormatLabel(block.format.element))}});
  cards.push_back(
      {"Scale",
       fourDigits(scale),
       {block.format.power_of_two_scale ? QString("FP32, a power of two") : QString("FP32, not rounded"), "FP32"}});
}

}  // namespace

std::vector<BlockCard> blockCards(const BlockAnatomy& block) {
  if (block.is_nan())
    return {{"Largest value", QStringLiteral("NaN"), {"a NaN or an infinity", "NaN"}},
            {"Scale", QStringLiteral("NaN"), {"every value decodes to NaN", "NaN"}}};
  std::vector<BlockCard> cards{largestCard(block)};
  switch (block.format.scheme) {
    case QuantScheme::nvfp4:
      addNvfp4Cards(block, cards);
      break;
    case QuantScheme::fp8:
      addFp8Cards(block, cards);
      break;
    default:
      addMxCards(block, cards);
  }
  cards.push_back(codeCard(block));
  return cards;
}

BlockCards::BlockCards(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAccessibleName(QString("How the scale follows from the largest value"));
}

void BlockCards::setBlock(const BlockAnatomy& block) {
  cards_ = blockCards(block);
  QStringList lines;
  for (const std::string& line : block.derivation) lines << printedText(line);
  setToolTip(lines.join(QLatin1Char('\n')));
  setAccessibleDescription(toolTip());
  update();
}

QSize BlockCards::sizeHint() const {
  const auto line = [](Type type) { return QFontMetrics(typeFont(type)).height(); };
  const int captions = with_notes_ ? 2 * line(Type::caption) : 0;
  return {withType(600, fontMetrics()), line(Type::heading) + captions + 2 * kSpace4 + kSpace8};
}

void BlockCards::setWithNotes(bool with_notes) {
  if (with_notes_ == with_notes) return;
  with_notes_ = with_notes;
  updateGeometry();
}

void BlockCards::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const int arrow = kSpace24, count = to_int(cards_.size());
  if (count == 0) return;
  const int wide = (width() - (count - 1) * arrow) / count, high = height() - kSpace8;
  for (int i = 0; i < count; ++i) {
    const QRect place(i * (wide + arrow), 0, wide, high);
    paintCard(painter, place, cards_[i]);
    if (i + 1 == count) break;
    painter.save();
    painter.translate(QPoint(place.right() + 1 + arrow / 2, high / 2));
    painter.rotate(-90);
    drawChevron(painter, QRect(-arrow / 2, -arrow / 2, arrow, arrow), palette().color(QPalette::Text));
    painter.restore();
  }
}

void BlockCards::paintCard(QPainter& painter, const QRect& place, const BlockCard& card) const {
  const Colors& c = colors(palette());
  drawRounded(painter, place, kRadiusControl, QColor(c.sunken), Qt::transparent);
  QRect inner = place.adjusted(kSpace8, kSpace4, -kSpace4, -kSpace4);
  int y = inner.top();
  const auto line = [&](const QStringList& forms, Type type, bool bold, QRgb color) {
    painter.setFont(typeFont(type, bold));
    painter.setPen(QColor(color));
    const QFontMetrics metrics(painter.font());
    painter.drawText(QRect(inner.left(), y, inner.width(), metrics.height()), Qt::AlignLeft | Qt::AlignVCenter,
                     fittingText(forms, metrics, inner.width()));
    y += metrics.height();
  };
  if (!with_notes_) {  // one line
    painter.setFont(typeFont(Type::caption, true));
    painter.setPen(QColor(c.ink));
    painter.drawText(inner, Qt::AlignRight | Qt::AlignVCenter, card.value);
    inner.setRight(inner.right() - painter.fontMetrics().horizontalAdvance(card.value) - kSpace4);
    y += (inner.height() - painter.fontMetrics().height()) / 2;
  }
  line({card.label, card.label.section(QLatin1Char(' '), 0, 0)}, Type::caption, false, c.ink2);
  if (!with_notes_) return;
  const QFontMetrics large(typeFont(QApplication::font(), Type::heading, true));
  const bool fits = large.horizontalAdvance(card.value) <= inner.width();
  line({card.value}, fits ? Type::heading : Type::caption, true, c.ink);
  line(card.notes, Type::caption, false, c.ink2);
}

}  // namespace moescope
