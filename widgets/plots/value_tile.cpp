#include "widgets/plots/value_tile.h"

#include <QPainter>
#include <algorithm>
#include <utility>

#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

ValueTile::ValueTile(Selection* selection, const QString& name, std::function<QString()> value, QWidget* parent)
    : QAbstractButton(parent), value_(std::move(value)) {
  setText(name);
  setAccessibleName(name);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  connect(selection, &Selection::changed, this, qOverload<>(&QWidget::update));
}

void ValueTile::setPlace(std::function<QStringList()> place) {
  place_ = std::move(place);
  updateGeometry();
}

QSize ValueTile::sizeHint() const {
  const int lines = captionMetrics().height() * (place_ ? 2 : 1) + fontMetrics().height();
  const QStringList place = place_ ? place_() : QStringList();
  const int widest = std::max({captionMetrics().horizontalAdvance(text()),
                               captionMetrics().horizontalAdvance(place.value(place.size() - 1)),
                               QFontMetrics(semibold(font())).horizontalAdvance(value_())});
  return {widest + 2 * kSpace8, lines + kSpace8};
}

QFontMetrics ValueTile::captionMetrics() const {
  return QFontMetrics(typeFont(font(), Type::caption));
}

// Leaves out texts that do not fit; no text is cut. A number without its name says nothing, so both are left out.
void ValueTile::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  const QFont caption = typeFont(font(), Type::caption), figure = semibold(font());
  const QFontMetrics small(caption), large(figure);
  const int room = width() - 2 * kSpace8;
  int y = kSpace4;
  const auto line = [&](const QFont& type, QRgb ink, const QString& text) {
    painter.setFont(type);
    painter.setPen(QColor(ink));
    painter.drawText(QRect(kSpace8, y, room + 1, painter.fontMetrics().height()), Qt::AlignLeft, text);
    y += painter.fontMetrics().height();
  };
  if (isChecked()) drawRounded(painter, rect(), kRadiusControl, QColor(c.accent_soft), Qt::transparent);
  const QString name = fittingText({text()}, small, room);
  line(caption, c.ink2, name);
  const QString value = value_();
  const QStringList place = place_ ? place_() : QStringList();
  if (!name.isEmpty())
    line(figure, c.ink,
         fittingText({value, value.section(QStringLiteral(", "), -1), value.section(u' ', 0, 0)}, large, room));
  if (!name.isEmpty() && !place.isEmpty()) line(caption, c.ink2, fittingText(place, small, room));
  const QString whole = place.isEmpty() ? value : value + QStringLiteral(", ") + place.front();
  if (accessibleDescription() != whole) setAccessibleDescription(whole);
  if (showsFocus(*this)) drawRounded(painter, rect(), kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
}

}  // namespace moescope
