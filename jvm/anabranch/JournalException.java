package anabranch;

import java.io.IOException;

/** What went wrong between Spark and the node, in a sentence for whoever runs the node. */
class JournalException extends IOException {
    JournalException(String said) {
        super(said);
    }
}
