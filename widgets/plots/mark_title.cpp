#include "widgets/plots/mark_title.h"

#include "widgets/look/fitted_text.h"

namespace moescope {

MarkTitle titleBeside(int x, int gap, int left_limit, int right_limit, const QString& title,
                      const QFontMetrics& metrics) {
  const int width = metrics.horizontalAdvance(title);
  if (x + gap + width > right_limit && x - gap - width >= left_limit) return {title, x - gap - width};
  const QString words = elidedWords(title, metrics, right_limit - x - gap);
  return {words.size() < 3 ? QString() : words, x + gap};
}

}  // namespace moescope
