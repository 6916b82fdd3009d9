package anabranch;

/** How far the next batch may read: the ranges of its tasks, and the rows of the only one if they are few. */
final class News {
    final long[] cuts;
    private final SentRange sent;

    News(long[] cuts, SentRange sent) {
        this.cuts = cuts;
        this.sent = sent;
    }

    long end() {
        return cuts[cuts.length - 1];
    }

    boolean tellsOf(long after, long to) {
        return cuts[0] == after && end() == to;
    }

    JournalRange[] ranges() {
        JournalRange[] ranges = new JournalRange[cuts.length - 1];
        for (int index = 0; index < ranges.length; index++) {
            ranges[index] = new JournalRange(cuts[index], cuts[index + 1], sent);
        }
        return ranges;
    }
}
