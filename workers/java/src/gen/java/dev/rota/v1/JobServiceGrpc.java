package dev.rota.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Creates, reads and steers jobs of the caller's tenant. Needs the role client or operator.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class JobServiceGrpc {

  private JobServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "rota.v1.JobService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.CreateJobRequest,
      dev.rota.v1.CreateJobResponse> getCreateJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateJob",
      requestType = dev.rota.v1.CreateJobRequest.class,
      responseType = dev.rota.v1.CreateJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.CreateJobRequest,
      dev.rota.v1.CreateJobResponse> getCreateJobMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.CreateJobRequest, dev.rota.v1.CreateJobResponse> getCreateJobMethod;
    if ((getCreateJobMethod = JobServiceGrpc.getCreateJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getCreateJobMethod = JobServiceGrpc.getCreateJobMethod) == null) {
          JobServiceGrpc.getCreateJobMethod = getCreateJobMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.CreateJobRequest, dev.rota.v1.CreateJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateJob"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CreateJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CreateJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("CreateJob"))
              .build();
        }
      }
    }
    return getCreateJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.BatchCreateJobsRequest,
      dev.rota.v1.BatchCreateJobsResponse> getBatchCreateJobsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BatchCreateJobs",
      requestType = dev.rota.v1.BatchCreateJobsRequest.class,
      responseType = dev.rota.v1.BatchCreateJobsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.BatchCreateJobsRequest,
      dev.rota.v1.BatchCreateJobsResponse> getBatchCreateJobsMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.BatchCreateJobsRequest, dev.rota.v1.BatchCreateJobsResponse> getBatchCreateJobsMethod;
    if ((getBatchCreateJobsMethod = JobServiceGrpc.getBatchCreateJobsMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getBatchCreateJobsMethod = JobServiceGrpc.getBatchCreateJobsMethod) == null) {
          JobServiceGrpc.getBatchCreateJobsMethod = getBatchCreateJobsMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.BatchCreateJobsRequest, dev.rota.v1.BatchCreateJobsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BatchCreateJobs"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.BatchCreateJobsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.BatchCreateJobsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("BatchCreateJobs"))
              .build();
        }
      }
    }
    return getBatchCreateJobsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.GetJobRequest,
      dev.rota.v1.GetJobResponse> getGetJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetJob",
      requestType = dev.rota.v1.GetJobRequest.class,
      responseType = dev.rota.v1.GetJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.GetJobRequest,
      dev.rota.v1.GetJobResponse> getGetJobMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.GetJobRequest, dev.rota.v1.GetJobResponse> getGetJobMethod;
    if ((getGetJobMethod = JobServiceGrpc.getGetJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getGetJobMethod = JobServiceGrpc.getGetJobMethod) == null) {
          JobServiceGrpc.getGetJobMethod = getGetJobMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.GetJobRequest, dev.rota.v1.GetJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetJob"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.GetJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.GetJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("GetJob"))
              .build();
        }
      }
    }
    return getGetJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.ListJobsRequest,
      dev.rota.v1.ListJobsResponse> getListJobsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListJobs",
      requestType = dev.rota.v1.ListJobsRequest.class,
      responseType = dev.rota.v1.ListJobsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.ListJobsRequest,
      dev.rota.v1.ListJobsResponse> getListJobsMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.ListJobsRequest, dev.rota.v1.ListJobsResponse> getListJobsMethod;
    if ((getListJobsMethod = JobServiceGrpc.getListJobsMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getListJobsMethod = JobServiceGrpc.getListJobsMethod) == null) {
          JobServiceGrpc.getListJobsMethod = getListJobsMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.ListJobsRequest, dev.rota.v1.ListJobsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListJobs"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListJobsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListJobsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("ListJobs"))
              .build();
        }
      }
    }
    return getListJobsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.CancelJobRequest,
      dev.rota.v1.CancelJobResponse> getCancelJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CancelJob",
      requestType = dev.rota.v1.CancelJobRequest.class,
      responseType = dev.rota.v1.CancelJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.CancelJobRequest,
      dev.rota.v1.CancelJobResponse> getCancelJobMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.CancelJobRequest, dev.rota.v1.CancelJobResponse> getCancelJobMethod;
    if ((getCancelJobMethod = JobServiceGrpc.getCancelJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getCancelJobMethod = JobServiceGrpc.getCancelJobMethod) == null) {
          JobServiceGrpc.getCancelJobMethod = getCancelJobMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.CancelJobRequest, dev.rota.v1.CancelJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CancelJob"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CancelJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CancelJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("CancelJob"))
              .build();
        }
      }
    }
    return getCancelJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.RetryJobRequest,
      dev.rota.v1.RetryJobResponse> getRetryJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RetryJob",
      requestType = dev.rota.v1.RetryJobRequest.class,
      responseType = dev.rota.v1.RetryJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.RetryJobRequest,
      dev.rota.v1.RetryJobResponse> getRetryJobMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.RetryJobRequest, dev.rota.v1.RetryJobResponse> getRetryJobMethod;
    if ((getRetryJobMethod = JobServiceGrpc.getRetryJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getRetryJobMethod = JobServiceGrpc.getRetryJobMethod) == null) {
          JobServiceGrpc.getRetryJobMethod = getRetryJobMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.RetryJobRequest, dev.rota.v1.RetryJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RetryJob"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.RetryJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.RetryJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("RetryJob"))
              .build();
        }
      }
    }
    return getRetryJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.RescheduleJobRequest,
      dev.rota.v1.RescheduleJobResponse> getRescheduleJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RescheduleJob",
      requestType = dev.rota.v1.RescheduleJobRequest.class,
      responseType = dev.rota.v1.RescheduleJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.RescheduleJobRequest,
      dev.rota.v1.RescheduleJobResponse> getRescheduleJobMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.RescheduleJobRequest, dev.rota.v1.RescheduleJobResponse> getRescheduleJobMethod;
    if ((getRescheduleJobMethod = JobServiceGrpc.getRescheduleJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getRescheduleJobMethod = JobServiceGrpc.getRescheduleJobMethod) == null) {
          JobServiceGrpc.getRescheduleJobMethod = getRescheduleJobMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.RescheduleJobRequest, dev.rota.v1.RescheduleJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RescheduleJob"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.RescheduleJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.RescheduleJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("RescheduleJob"))
              .build();
        }
      }
    }
    return getRescheduleJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.ListAttemptsRequest,
      dev.rota.v1.ListAttemptsResponse> getListAttemptsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListAttempts",
      requestType = dev.rota.v1.ListAttemptsRequest.class,
      responseType = dev.rota.v1.ListAttemptsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.ListAttemptsRequest,
      dev.rota.v1.ListAttemptsResponse> getListAttemptsMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.ListAttemptsRequest, dev.rota.v1.ListAttemptsResponse> getListAttemptsMethod;
    if ((getListAttemptsMethod = JobServiceGrpc.getListAttemptsMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getListAttemptsMethod = JobServiceGrpc.getListAttemptsMethod) == null) {
          JobServiceGrpc.getListAttemptsMethod = getListAttemptsMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.ListAttemptsRequest, dev.rota.v1.ListAttemptsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListAttempts"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListAttemptsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListAttemptsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("ListAttempts"))
              .build();
        }
      }
    }
    return getListAttemptsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.WaitJobRequest,
      dev.rota.v1.WaitJobResponse> getWaitJobMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WaitJob",
      requestType = dev.rota.v1.WaitJobRequest.class,
      responseType = dev.rota.v1.WaitJobResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.WaitJobRequest,
      dev.rota.v1.WaitJobResponse> getWaitJobMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.WaitJobRequest, dev.rota.v1.WaitJobResponse> getWaitJobMethod;
    if ((getWaitJobMethod = JobServiceGrpc.getWaitJobMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getWaitJobMethod = JobServiceGrpc.getWaitJobMethod) == null) {
          JobServiceGrpc.getWaitJobMethod = getWaitJobMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.WaitJobRequest, dev.rota.v1.WaitJobResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WaitJob"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.WaitJobRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.WaitJobResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("WaitJob"))
              .build();
        }
      }
    }
    return getWaitJobMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.WatchJobsRequest,
      dev.rota.v1.WatchJobsResponse> getWatchJobsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchJobs",
      requestType = dev.rota.v1.WatchJobsRequest.class,
      responseType = dev.rota.v1.WatchJobsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.rota.v1.WatchJobsRequest,
      dev.rota.v1.WatchJobsResponse> getWatchJobsMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.WatchJobsRequest, dev.rota.v1.WatchJobsResponse> getWatchJobsMethod;
    if ((getWatchJobsMethod = JobServiceGrpc.getWatchJobsMethod) == null) {
      synchronized (JobServiceGrpc.class) {
        if ((getWatchJobsMethod = JobServiceGrpc.getWatchJobsMethod) == null) {
          JobServiceGrpc.getWatchJobsMethod = getWatchJobsMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.WatchJobsRequest, dev.rota.v1.WatchJobsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchJobs"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.WatchJobsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.WatchJobsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new JobServiceMethodDescriptorSupplier("WatchJobs"))
              .build();
        }
      }
    }
    return getWatchJobsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static JobServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<JobServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<JobServiceStub>() {
        @java.lang.Override
        public JobServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new JobServiceStub(channel, callOptions);
        }
      };
    return JobServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static JobServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<JobServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<JobServiceBlockingV2Stub>() {
        @java.lang.Override
        public JobServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new JobServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return JobServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static JobServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<JobServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<JobServiceBlockingStub>() {
        @java.lang.Override
        public JobServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new JobServiceBlockingStub(channel, callOptions);
        }
      };
    return JobServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static JobServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<JobServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<JobServiceFutureStub>() {
        @java.lang.Override
        public JobServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new JobServiceFutureStub(channel, callOptions);
        }
      };
    return JobServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Creates, reads and steers jobs of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Creates a job, durable when answered.
     * </pre>
     */
    default void createJob(dev.rota.v1.CreateJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CreateJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * Creates up to 1,000 jobs in one transaction: all or none.
     * </pre>
     */
    default void batchCreateJobs(dev.rota.v1.BatchCreateJobsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.BatchCreateJobsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBatchCreateJobsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reads one job, live or finished.
     * </pre>
     */
    default void getJob(dev.rota.v1.GetJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.GetJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists jobs, newest first.
     * </pre>
     */
    default void listJobs(dev.rota.v1.ListJobsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListJobsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListJobsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Cancels a job. Repeating it is safe; a terminal job stays as it is and is returned.
     * </pre>
     */
    default void cancelJob(dev.rota.v1.CancelJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CancelJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCancelJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * Makes a job that waits for a retry, or a dead one, ready now.
     * </pre>
     */
    default void retryJob(dev.rota.v1.RetryJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.RetryJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRetryJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * Moves the due time of a job that has not started.
     * </pre>
     */
    default void rescheduleJob(dev.rota.v1.RescheduleJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.RescheduleJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRescheduleJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the attempts of a job, oldest first, the running one included.
     * </pre>
     */
    default void listAttempts(dev.rota.v1.ListAttemptsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListAttemptsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListAttemptsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Waits up to 10 s for a job to become terminal, then answers with the job as it is.
     * </pre>
     */
    default void waitJob(dev.rota.v1.WaitJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.WaitJobResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWaitJobMethod(), responseObserver);
    }

    /**
     * <pre>
     * Streams changes of jobs, at least once, from a resume token on. Every change that is committed comes, whichever
     * coordinator made it; those of one job come in their order, unless the watcher is far behind. The stream has no end of
     * its own: one that breaks off is taken up at any coordinator by the newest token. FAILED_PRECONDITION: changes after
     * the token are not kept any more (they are for an hour); watch without one, then list.
     * </pre>
     */
    default void watchJobs(dev.rota.v1.WatchJobsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.WatchJobsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchJobsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service JobService.
   * <pre>
   * Creates, reads and steers jobs of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static abstract class JobServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return JobServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service JobService.
   * <pre>
   * Creates, reads and steers jobs of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static final class JobServiceStub
      extends io.grpc.stub.AbstractAsyncStub<JobServiceStub> {
    private JobServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected JobServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new JobServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a job, durable when answered.
     * </pre>
     */
    public void createJob(dev.rota.v1.CreateJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CreateJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Creates up to 1,000 jobs in one transaction: all or none.
     * </pre>
     */
    public void batchCreateJobs(dev.rota.v1.BatchCreateJobsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.BatchCreateJobsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBatchCreateJobsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reads one job, live or finished.
     * </pre>
     */
    public void getJob(dev.rota.v1.GetJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.GetJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists jobs, newest first.
     * </pre>
     */
    public void listJobs(dev.rota.v1.ListJobsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListJobsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListJobsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Cancels a job. Repeating it is safe; a terminal job stays as it is and is returned.
     * </pre>
     */
    public void cancelJob(dev.rota.v1.CancelJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CancelJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCancelJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Makes a job that waits for a retry, or a dead one, ready now.
     * </pre>
     */
    public void retryJob(dev.rota.v1.RetryJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.RetryJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRetryJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Moves the due time of a job that has not started.
     * </pre>
     */
    public void rescheduleJob(dev.rota.v1.RescheduleJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.RescheduleJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRescheduleJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the attempts of a job, oldest first, the running one included.
     * </pre>
     */
    public void listAttempts(dev.rota.v1.ListAttemptsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListAttemptsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListAttemptsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Waits up to 10 s for a job to become terminal, then answers with the job as it is.
     * </pre>
     */
    public void waitJob(dev.rota.v1.WaitJobRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.WaitJobResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getWaitJobMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Streams changes of jobs, at least once, from a resume token on. Every change that is committed comes, whichever
     * coordinator made it; those of one job come in their order, unless the watcher is far behind. The stream has no end of
     * its own: one that breaks off is taken up at any coordinator by the newest token. FAILED_PRECONDITION: changes after
     * the token are not kept any more (they are for an hour); watch without one, then list.
     * </pre>
     */
    public void watchJobs(dev.rota.v1.WatchJobsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.WatchJobsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchJobsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service JobService.
   * <pre>
   * Creates, reads and steers jobs of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static final class JobServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<JobServiceBlockingV2Stub> {
    private JobServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected JobServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new JobServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a job, durable when answered.
     * </pre>
     */
    public dev.rota.v1.CreateJobResponse createJob(dev.rota.v1.CreateJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Creates up to 1,000 jobs in one transaction: all or none.
     * </pre>
     */
    public dev.rota.v1.BatchCreateJobsResponse batchCreateJobs(dev.rota.v1.BatchCreateJobsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getBatchCreateJobsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads one job, live or finished.
     * </pre>
     */
    public dev.rota.v1.GetJobResponse getJob(dev.rota.v1.GetJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists jobs, newest first.
     * </pre>
     */
    public dev.rota.v1.ListJobsResponse listJobs(dev.rota.v1.ListJobsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListJobsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Cancels a job. Repeating it is safe; a terminal job stays as it is and is returned.
     * </pre>
     */
    public dev.rota.v1.CancelJobResponse cancelJob(dev.rota.v1.CancelJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCancelJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes a job that waits for a retry, or a dead one, ready now.
     * </pre>
     */
    public dev.rota.v1.RetryJobResponse retryJob(dev.rota.v1.RetryJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRetryJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Moves the due time of a job that has not started.
     * </pre>
     */
    public dev.rota.v1.RescheduleJobResponse rescheduleJob(dev.rota.v1.RescheduleJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRescheduleJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the attempts of a job, oldest first, the running one included.
     * </pre>
     */
    public dev.rota.v1.ListAttemptsResponse listAttempts(dev.rota.v1.ListAttemptsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListAttemptsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Waits up to 10 s for a job to become terminal, then answers with the job as it is.
     * </pre>
     */
    public dev.rota.v1.WaitJobResponse waitJob(dev.rota.v1.WaitJobRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getWaitJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams changes of jobs, at least once, from a resume token on. Every change that is committed comes, whichever
     * coordinator made it; those of one job come in their order, unless the watcher is far behind. The stream has no end of
     * its own: one that breaks off is taken up at any coordinator by the newest token. FAILED_PRECONDITION: changes after
     * the token are not kept any more (they are for an hour); watch without one, then list.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.rota.v1.WatchJobsResponse>
        watchJobs(dev.rota.v1.WatchJobsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchJobsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service JobService.
   * <pre>
   * Creates, reads and steers jobs of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static final class JobServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<JobServiceBlockingStub> {
    private JobServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected JobServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new JobServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a job, durable when answered.
     * </pre>
     */
    public dev.rota.v1.CreateJobResponse createJob(dev.rota.v1.CreateJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Creates up to 1,000 jobs in one transaction: all or none.
     * </pre>
     */
    public dev.rota.v1.BatchCreateJobsResponse batchCreateJobs(dev.rota.v1.BatchCreateJobsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBatchCreateJobsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads one job, live or finished.
     * </pre>
     */
    public dev.rota.v1.GetJobResponse getJob(dev.rota.v1.GetJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists jobs, newest first.
     * </pre>
     */
    public dev.rota.v1.ListJobsResponse listJobs(dev.rota.v1.ListJobsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListJobsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Cancels a job. Repeating it is safe; a terminal job stays as it is and is returned.
     * </pre>
     */
    public dev.rota.v1.CancelJobResponse cancelJob(dev.rota.v1.CancelJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCancelJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes a job that waits for a retry, or a dead one, ready now.
     * </pre>
     */
    public dev.rota.v1.RetryJobResponse retryJob(dev.rota.v1.RetryJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRetryJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Moves the due time of a job that has not started.
     * </pre>
     */
    public dev.rota.v1.RescheduleJobResponse rescheduleJob(dev.rota.v1.RescheduleJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRescheduleJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the attempts of a job, oldest first, the running one included.
     * </pre>
     */
    public dev.rota.v1.ListAttemptsResponse listAttempts(dev.rota.v1.ListAttemptsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListAttemptsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Waits up to 10 s for a job to become terminal, then answers with the job as it is.
     * </pre>
     */
    public dev.rota.v1.WaitJobResponse waitJob(dev.rota.v1.WaitJobRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getWaitJobMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams changes of jobs, at least once, from a resume token on. Every change that is committed comes, whichever
     * coordinator made it; those of one job come in their order, unless the watcher is far behind. The stream has no end of
     * its own: one that breaks off is taken up at any coordinator by the newest token. FAILED_PRECONDITION: changes after
     * the token are not kept any more (they are for an hour); watch without one, then list.
     * </pre>
     */
    public java.util.Iterator<dev.rota.v1.WatchJobsResponse> watchJobs(
        dev.rota.v1.WatchJobsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchJobsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service JobService.
   * <pre>
   * Creates, reads and steers jobs of the caller's tenant. Needs the role client or operator.
   * </pre>
   */
  public static final class JobServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<JobServiceFutureStub> {
    private JobServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected JobServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new JobServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a job, durable when answered.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.CreateJobResponse> createJob(
        dev.rota.v1.CreateJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateJobMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Creates up to 1,000 jobs in one transaction: all or none.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.BatchCreateJobsResponse> batchCreateJobs(
        dev.rota.v1.BatchCreateJobsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBatchCreateJobsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reads one job, live or finished.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.GetJobResponse> getJob(
        dev.rota.v1.GetJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetJobMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists jobs, newest first.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.ListJobsResponse> listJobs(
        dev.rota.v1.ListJobsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListJobsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Cancels a job. Repeating it is safe; a terminal job stays as it is and is returned.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.CancelJobResponse> cancelJob(
        dev.rota.v1.CancelJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCancelJobMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Makes a job that waits for a retry, or a dead one, ready now.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.RetryJobResponse> retryJob(
        dev.rota.v1.RetryJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRetryJobMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Moves the due time of a job that has not started.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.RescheduleJobResponse> rescheduleJob(
        dev.rota.v1.RescheduleJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRescheduleJobMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the attempts of a job, oldest first, the running one included.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.ListAttemptsResponse> listAttempts(
        dev.rota.v1.ListAttemptsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListAttemptsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Waits up to 10 s for a job to become terminal, then answers with the job as it is.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.WaitJobResponse> waitJob(
        dev.rota.v1.WaitJobRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getWaitJobMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_JOB = 0;
  private static final int METHODID_BATCH_CREATE_JOBS = 1;
  private static final int METHODID_GET_JOB = 2;
  private static final int METHODID_LIST_JOBS = 3;
  private static final int METHODID_CANCEL_JOB = 4;
  private static final int METHODID_RETRY_JOB = 5;
  private static final int METHODID_RESCHEDULE_JOB = 6;
  private static final int METHODID_LIST_ATTEMPTS = 7;
  private static final int METHODID_WAIT_JOB = 8;
  private static final int METHODID_WATCH_JOBS = 9;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_CREATE_JOB:
          serviceImpl.createJob((dev.rota.v1.CreateJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.CreateJobResponse>) responseObserver);
          break;
        case METHODID_BATCH_CREATE_JOBS:
          serviceImpl.batchCreateJobs((dev.rota.v1.BatchCreateJobsRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.BatchCreateJobsResponse>) responseObserver);
          break;
        case METHODID_GET_JOB:
          serviceImpl.getJob((dev.rota.v1.GetJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.GetJobResponse>) responseObserver);
          break;
        case METHODID_LIST_JOBS:
          serviceImpl.listJobs((dev.rota.v1.ListJobsRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.ListJobsResponse>) responseObserver);
          break;
        case METHODID_CANCEL_JOB:
          serviceImpl.cancelJob((dev.rota.v1.CancelJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.CancelJobResponse>) responseObserver);
          break;
        case METHODID_RETRY_JOB:
          serviceImpl.retryJob((dev.rota.v1.RetryJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.RetryJobResponse>) responseObserver);
          break;
        case METHODID_RESCHEDULE_JOB:
          serviceImpl.rescheduleJob((dev.rota.v1.RescheduleJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.RescheduleJobResponse>) responseObserver);
          break;
        case METHODID_LIST_ATTEMPTS:
          serviceImpl.listAttempts((dev.rota.v1.ListAttemptsRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.ListAttemptsResponse>) responseObserver);
          break;
        case METHODID_WAIT_JOB:
          serviceImpl.waitJob((dev.rota.v1.WaitJobRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.WaitJobResponse>) responseObserver);
          break;
        case METHODID_WATCH_JOBS:
          serviceImpl.watchJobs((dev.rota.v1.WatchJobsRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.WatchJobsResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getCreateJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.CreateJobRequest,
              dev.rota.v1.CreateJobResponse>(
                service, METHODID_CREATE_JOB)))
        .addMethod(
          getBatchCreateJobsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.BatchCreateJobsRequest,
              dev.rota.v1.BatchCreateJobsResponse>(
                service, METHODID_BATCH_CREATE_JOBS)))
        .addMethod(
          getGetJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.GetJobRequest,
              dev.rota.v1.GetJobResponse>(
                service, METHODID_GET_JOB)))
        .addMethod(
          getListJobsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.ListJobsRequest,
              dev.rota.v1.ListJobsResponse>(
                service, METHODID_LIST_JOBS)))
        .addMethod(
          getCancelJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.CancelJobRequest,
              dev.rota.v1.CancelJobResponse>(
                service, METHODID_CANCEL_JOB)))
        .addMethod(
          getRetryJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.RetryJobRequest,
              dev.rota.v1.RetryJobResponse>(
                service, METHODID_RETRY_JOB)))
        .addMethod(
          getRescheduleJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.RescheduleJobRequest,
              dev.rota.v1.RescheduleJobResponse>(
                service, METHODID_RESCHEDULE_JOB)))
        .addMethod(
          getListAttemptsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.ListAttemptsRequest,
              dev.rota.v1.ListAttemptsResponse>(
                service, METHODID_LIST_ATTEMPTS)))
        .addMethod(
          getWaitJobMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.WaitJobRequest,
              dev.rota.v1.WaitJobResponse>(
                service, METHODID_WAIT_JOB)))
        .addMethod(
          getWatchJobsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.rota.v1.WatchJobsRequest,
              dev.rota.v1.WatchJobsResponse>(
                service, METHODID_WATCH_JOBS)))
        .build();
  }

  private static abstract class JobServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    JobServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.rota.v1.Jobs.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("JobService");
    }
  }

  private static final class JobServiceFileDescriptorSupplier
      extends JobServiceBaseDescriptorSupplier {
    JobServiceFileDescriptorSupplier() {}
  }

  private static final class JobServiceMethodDescriptorSupplier
      extends JobServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    JobServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (JobServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new JobServiceFileDescriptorSupplier())
              .addMethod(getCreateJobMethod())
              .addMethod(getBatchCreateJobsMethod())
              .addMethod(getGetJobMethod())
              .addMethod(getListJobsMethod())
              .addMethod(getCancelJobMethod())
              .addMethod(getRetryJobMethod())
              .addMethod(getRescheduleJobMethod())
              .addMethod(getListAttemptsMethod())
              .addMethod(getWaitJobMethod())
              .addMethod(getWatchJobsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
