#include "widgets/panel/token_contexts.h"

#include <QPainter>
#include <algorithm>

#include "core/files/text/text_escape.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/byte_text.h"

namespace moescope {

QString shownBytes(std::string_view bytes) {
  QString text;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    if (const QString character = longCharacter(bytes, at); !character.isEmpty()) {
      text += character;
      at += utf8_bytes(bytes, at) - 1;
    } else if (byte == '\n' || byte == '\t')
      text += byteGlyph(byte);
    else
      text += byte >= 32 && byte < 127 ? QChar(byte) : QChar(0xb7);
  }
  return text;
}

TokenContexts::TokenContexts(QWidget* parent) : PlotFrame(parent) {
  setFocusPolicy(Qt::NoFocus);
}

void TokenContexts::setLines(std::vector<Line> lines) {
  lines_ = std::move(lines);
  QStringList spoken;
  for (const Line& line : lines_) spoken << line.before + QLatin1Char('[') + line.token + QLatin1Char(']') + line.after;
  setAccessibleDescription(spoken.join(QStringLiteral("; ")));
}

int TokenContexts::linesThatFit() const {
  return std::max(0, (height() - fontMetrics().height() - 4) / (fontMetrics().height() + 1));
}

void TokenContexts::paintStatic(QPainter& painter) {
  painter.setPen(mutedText(palette()));
  const QRect line(4, 1, width() - 8, fontMetrics().height());
  painter.drawText(line, Qt::AlignLeft, elidedWords(title_, fontMetrics(), line.width()));
}

void TokenContexts::paintData(QPainter& painter) {
  const QFont fixed = formulaFont(font());
  const int step = fontMetrics().height() + 1;
  painter.setFont(fixed);
  const QFontMetrics metrics(fixed);
  const int middle = width() / 2;
  int y = fontMetrics().height() + 3;
  for (const Line& line : lines_) {
    if (y + step > height()) break;
    const int token_width = metrics.horizontalAdvance(line.token) + 2;
    const QRect token(middle - token_width / 2, y, token_width, step);
    QColor ground(colors(palette()).plain_bar);
    ground.setAlphaF(static_cast<float>(0.25 + 0.6 * std::clamp(line.share, 0.0, 1.0)));
    painter.fillRect(token, ground);
    painter.setPen(palette().text().color());
    painter.drawText(token, Qt::AlignCenter, line.token);
    painter.setPen(mutedText(palette()));
    painter.drawText(QRect(4, y, token.left() - 5, step), Qt::AlignRight | Qt::AlignVCenter, line.before);
    painter.drawText(QRect(token.right() + 2, y, width() - token.right() - 6, step), Qt::AlignLeft | Qt::AlignVCenter,
                     line.after);
    y += step;
  }
}

}  // namespace moescope
