#include "widgets/plots/share_bars.h"

#include <QPainter>
#include <algorithm>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

ShareBars::ShareBars(QWidget* parent) : PlotFrame(parent) {
  setFocusPolicy(Qt::NoFocus);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
}

void ShareBars::setBars(std::vector<Bar> bars) {
  bars_ = std::move(bars);
  QStringList spoken;
  for (const Bar& bar : bars_) spoken << bar.name + QLatin1Char(' ') + bar.figure;
  setAccessibleDescription(spoken.join(QStringLiteral("; ")));
}

void ShareBars::paintStatic(QPainter& painter) {
  painter.setPen(mutedText(palette()));
  const QRect line(4, 1, width() - 8, fontMetrics().height());
  painter.drawText(line, Qt::AlignLeft,
                   fittingText({title_, title_.section(QLatin1Char(':'), 0, 0)}, fontMetrics(), line.width()));
}

void ShareBars::paintData(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  int names = 0, figures = 0;
  for (const Bar& bar : bars_) {
    names = std::max(names, metrics.horizontalAdvance(bar.name));
    figures = std::max(figures, metrics.horizontalAdvance(bar.figure));
  }
  names = std::min(names, width() / 3);
  const int left_x = names + 12, room = std::max(8, width() - left_x - figures - 14);
  double longest = 1e-9;
  for (const Bar& bar : bars_) longest = std::max(longest, bar.share);
  int y = metrics.height() + 3;
  for (const Bar& bar : bars_) {
    if (y + metrics.height() > height()) break;
    painter.setPen(palette().text().color());
    painter.drawText(QRect(6, y, names + 2, metrics.height()), Qt::AlignLeft | Qt::AlignVCenter,
                     elidedWords(bar.name, metrics, names + 1));
    const int length = std::max(1, static_cast<int>(bar.share / longest * room));
    painter.fillRect(QRect(left_x, y + 3, length, metrics.height() - 6),
                     QColor(&bar == bars_.data() ? colors(palette()).strong_bar : colors(palette()).plain_bar));
    painter.drawText(QRect(left_x + length + 5, y, figures + 4, metrics.height()), Qt::AlignLeft | Qt::AlignVCenter,
                     bar.figure);
    y += metrics.height();
  }
}

}  // namespace moescope
