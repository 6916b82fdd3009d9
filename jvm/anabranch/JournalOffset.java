package anabranch;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** The number of a segment. It names its stream, because Spark's checkpoint only lists offsets by position. */
final class JournalOffset extends Offset {
    final String stream;
    final long seq;

    JournalOffset(String stream, long seq) {
        this.stream = stream;
        this.seq = seq;
    }

    static JournalOffset fromJson(String json) {
        try {
            JsonNode read = Host.JSON.readTree(json);
            return new JournalOffset(read.get("stream").asText(), read.get("seq").asLong());
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("This is no offset of a journal: " + json, error);
        }
    }

    /** Spark compares offsets as text, also with those of older checkpoints: keys and spaces stay as they are. A name
     * of a stream has no character that JSON would write in another way. */
    public String json() {
        return "{\"stream\": \"" + stream + "\", \"seq\": " + seq + "}";
    }
}
