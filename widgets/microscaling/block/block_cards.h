// The scale of a block in at most five cards, from its largest value to the code of that value.
#pragma once

#include <QStringList>
#include <QWidget>
#include <vector>

#include "core/numerics/block_anatomy.h"

namespace moescope {

struct BlockCard {
  QString label, value;
  QStringList notes;  // long to short
};
std::vector<BlockCard> blockCards(const BlockAnatomy& block);

class BlockCards : public QWidget {
  Q_OBJECT

 public:
  explicit BlockCards(QWidget* parent = nullptr);
  void setBlock(const BlockAnatomy& block);
  void setWithNotes(bool with_notes);  // false: names and values only
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void paintCard(QPainter& painter, const QRect& place, const BlockCard& card) const;

  std::vector<BlockCard> cards_;
  bool with_notes_ = true;
};

}  // namespace moescope
